# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for hosts in a network that the request names."""

from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

import numpy as np
import numpy.typing as npt

from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec

NEAR, CIDR = "build_near_host_ip", "cidr"
_LOW = 2**64 - 1


class SimpleCIDRAffinityFilter(BaseHostFilter):
    """Keep the hosts whose address is in the network of the hints build_near_host_ip and cidr.

    The former is an address, the latter the length of the network's prefix, '/24' by default.
    Where the hints do not name a network no host passes.
    """

    run_filter_once_per_request = True

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.get_scheduler_hint(NEAR))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        network = _network(spec)
        if network is None:
            return np.zeros(hosts.size, np.bool_)
        version, high, low = _addresses(hosts)
        netmask, wanted = int(network.netmask), int(network.network_address)
        found = version == network.version
        found &= (high & np.uint64(netmask >> 64)) == wanted >> 64
        found &= (low & np.uint64(netmask & _LOW)) == wanted & _LOW
        return np.asarray(found, np.bool_)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        network = _network(spec_obj)
        if network is None:
            near, prefix = _hints(spec_obj)
            return f"the hints {NEAR} {near!r} and {CIDR} {prefix!r} name no network"
        return f"address {host_state.host_ip!r} is not in {network}"


def _hints(spec: RequestSpec) -> tuple[object, object]:
    return spec.get_scheduler_hint(NEAR), spec.get_scheduler_hint(CIDR, "/24")


def _network(spec: RequestSpec) -> IPv4Network | IPv6Network | None:
    near, prefix = _hints(spec)
    if not (isinstance(near, str) and isinstance(prefix, str)):
        return None
    # Without a slash the length would become part of the address.
    slash = "/" if prefix and not prefix.startswith("/") else ""
    try:
        return ip_network(near + slash + prefix, strict=False)
    except ValueError:
        return None


def _addresses(hosts: HostTable) -> list[npt.NDArray[np.uint64]]:
    """Return three columns: the version of host_ip (0 for none), its high and its low 64 bits."""
    # A text is parsed once for its three parts.
    parts = cache(_parts)

    def column(part: int) -> npt.NDArray[np.uint64]:
        return hosts.memo("host_ip", ("address", part), lambda ip: parts(str(ip))[part], np.uint64)

    return [column(part) for part in range(3)]


def _parts(text: str) -> tuple[int, int, int]:
    try:
        address = ip_address(text)
    except ValueError:
        return 0, 0, 0
    return address.version, int(address) >> 64, int(address) & _LOW

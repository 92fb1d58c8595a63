# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for hosts in a network that the request names."""

from ipaddress import ip_network

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.filters.host_addresses import Network, inside
from scheduler.objects.request_spec import RequestSpec

NEAR, CIDR = "build_near_host_ip", "cidr"


class SimpleCIDRAffinityFilter(BaseHostFilter):
    """Keep the hosts whose address is in the network of the hints build_near_host_ip and cidr.

    The former is an address, the latter the length of the network's prefix, '/24' by default.
    Hints that name no network are met by no host.
    """

    run_filter_once_per_request = True

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.get_scheduler_hint(NEAR))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        network = _network(spec)
        if network is None:
            return np.zeros(hosts.size, np.bool_)
        return inside(hosts, network)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        near, prefix = _hints(spec_obj)
        network = _network(spec_obj)
        if network is None:
            return f"the hints {NEAR} {near!r} and {CIDR} {prefix!r} name no network"
        return f"address {host_state.host_ip!r} is not in {network}"


def _hints(spec: RequestSpec) -> tuple[object, object]:
    return spec.get_scheduler_hint(NEAR), spec.get_scheduler_hint(CIDR, "/24")


def _network(spec: RequestSpec) -> Network | None:
    near, prefix = _hints(spec)
    if not (isinstance(near, str) and isinstance(prefix, str)):
        return None
    # Without a slash the length would become part of the address.
    slash = "/" if prefix and not prefix.startswith("/") else ""
    try:
        return ip_network(near + slash + prefix, strict=False)
    except ValueError:
        return None

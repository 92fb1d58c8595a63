# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which hosts have their address in a network."""

from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address

import numpy as np
import numpy.typing as npt

from scheduler.decision.host_table import HostTable, Mask

Network = IPv4Network | IPv6Network
_LOW = 2**64 - 1


def inside(hosts: HostTable, network: Network) -> Mask:
    """Return for each row whether host_ip is an address in the network, of the same family."""
    version, high, low = _addresses(hosts)
    netmask, wanted = int(network.netmask), int(network.network_address)
    found = version == network.version
    found &= (high & np.uint64(netmask >> 64)) == wanted >> 64
    found &= (low & np.uint64(netmask & _LOW)) == wanted & _LOW
    return np.asarray(found, np.bool_)


def _addresses(hosts: HostTable) -> list[npt.NDArray[np.uint64]]:
    """Return three columns: version of the address (0 for none), high and low 64 bits of it."""
    # A text is parsed once for its three parts.
    parts = cache(_parts)

    def column(part: int) -> npt.NDArray[np.uint64]:
        return hosts.derived(
            "host_ip", ("address", part), lambda ip: parts(str(ip))[part], np.uint64
        )

    return [column(part) for part in range(3)]


def _parts(text: str) -> tuple[int, int, int]:
    try:
        address = ip_address(text)
    except ValueError:
        return 0, 0, 0
    return address.version, int(address) >> 64, int(address) & _LOW

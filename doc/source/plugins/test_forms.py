# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The test of an example of the plug-in author's guide."""

from forms import RoomyHosts

from scheduler.decision.host_state import HostState
from scheduler.objects.flavor import Flavor
from scheduler.objects.request_spec import RequestSpec


def test_keeps_a_host_with_twice_the_memory_and_no_smaller_one():
    host = HostState("hypervisor1", "node1")
    host.total_usable_ram_mb = 4096
    assert RoomyHosts().host_passes(host, RequestSpec(Flavor(1, 2048, 10)))

    too_much = RequestSpec(Flavor(1, 2049, 10))
    assert not RoomyHosts().host_passes(host, too_much)
    assert RoomyHosts().reason(host, too_much) == "needs 4098 MB in total, has 4096"

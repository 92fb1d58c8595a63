# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The main job on real parts: a guest is seen, and instances are placed around it."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from inventory import compute_nodes
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.backends import backends_alike
from tests.builders import a_request
from tests.fixtures.daemons.libvirtd import Libvirtd
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.deployment import Deployment

GUEST_VCPUS, GUEST_MEMORY_MB = 2, 96


@backends_alike
def test_a_real_guest_counts_and_three_instances_are_placed_beside_it(
    deployment: Deployment,
    database: Database,
    libvirtd: Libvirtd,
    client: SchedulerClient,
    backend: str,
) -> None:
    agent = deployment.agent(
        backend,
        {
            "DEFAULT": {"update_resources_interval": 1, "reserved_host_memory_mb": 256},
            "libvirt": {"connection_uri": libvirtd.uri, "virt_type": "qemu"},
        },
        name="hypervisor",
    )
    deployment.scheduler(backend)
    before = _when(database, lambda node: True)
    with libvirtd.guest("guest", str(uuid4()), GUEST_VCPUS, GUEST_MEMORY_MB):
        after = _when(database, lambda node: node.running_vms == before.running_vms + 1)
        assert after.vcpus_used == before.vcpus_used + GUEST_VCPUS
        assert after.memory_mb_used == before.memory_mb_used + GUEST_MEMORY_MB
        assert after.free_ram_mb == before.free_ram_mb - GUEST_MEMORY_MB

        # Its next audit would give back what instances that nobody builds are about to take.
        agent.stop()
        uuids = [str(uuid4()) for _ in range(3)]
        spec = a_request(vcpus=1, memory_mb=128, root_gb=1)
        selections = client.select_destinations(RequestContext(), spec, uuids)

        assert [chosen.service_host for (chosen,) in selections] == ["hypervisor"] * 3
        for (chosen,) in selections:
            assert chosen.nodename == after.hypervisor_hostname
            assert chosen.compute_node_uuid == after.uuid
            assert chosen.limits.vcpu == int(after.vcpus * after.cpu_allocation_ratio)
            assert chosen.limits.memory_mb == after.memory_mb
        # Each placed instance has taken its share: the rest holds exactly so many more vCPUs.
        left = int(chosen.limits.vcpu) - after.vcpus_used - 3
        one_too_many = [str(uuid4()) for _ in range(left + 1)]
        with pytest.raises(NoValidHost):
            client.select_destinations(
                RequestContext(), a_request(vcpus=1, memory_mb=1, root_gb=0), one_too_many
            )
        exactly = client.select_destinations(
            RequestContext(), a_request(vcpus=1, memory_mb=1, root_gb=0), one_too_many[1:]
        )
        assert len(exactly) == left


def _when(database: Database, condition: Callable[..., bool]) -> object:
    """Return the only compute node, once there is one that fulfils a condition."""

    def found() -> list[object]:
        return [node for node in database.read(compute_nodes.all_live) if condition(node)]

    assert wait_until(found)
    return found()[0]

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic on NUMA cells."""

from inventory.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)


def test_a_host_cell_knows_what_is_left():
    cell = NUMACell(
        id=0,
        memory=4096,
        memory_usage=1024,
        cpuset={0, 1, 2, 3},
        pcpuset={2, 3, 4, 5},
        pinned_cpus={3, 4},
        siblings=[{2, 3}, {4, 5}],
    )
    assert cell.free_cpus == {0, 1, 2}
    assert cell.free_pcpus == {2, 5}
    assert (cell.avail_cpus, cell.avail_pcpus, cell.avail_memory) == (3, 2, 3072)
    assert cell.free_siblings == [{2}, {5}]
    assert len(NUMATopology([cell])) == 1
    assert cell.has_threads
    assert NUMATopology([NUMACell(1, 1, siblings=[{0}, set()]), cell]).has_threads
    assert not NUMATopology([NUMACell(1, 1, siblings=[{0}, {1}])]).has_threads


def test_pages_know_what_is_left():
    pages = NUMAPagesTopology(size_kb=2048, total=512, used=10, reserved=2)
    assert (pages.free, pages.free_kb) == (500, 1_024_000)


def test_a_guest_knows_its_cpus_and_its_pinning():
    pinned = InstanceNUMACell(0, 512, pcpuset={0}, cpu_policy="dedicated", cpu_pinning={0: 7})
    floating = InstanceNUMACell(1, 512, cpuset={1}, pcpuset={2})
    guest = InstanceNUMATopology([pinned, floating])
    assert floating.total_cpus == {1, 2}
    assert guest.cpu_pinning == {7}
    assert not guest.cpu_pinning_requested
    assert InstanceNUMATopology([pinned]).cpu_pinning_requested
    assert len(guest) == 2
    assert pinned.has_pinned_cpus
    assert InstanceNUMACell(0, 1, cpu_policy="mixed").has_pinned_cpus
    assert not floating.has_pinned_cpus

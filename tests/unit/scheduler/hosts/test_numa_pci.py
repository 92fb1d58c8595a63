# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.numa_pci: what consumption takes of cells and devices."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from inventory.numa.fit import fits
from scheduler.hosts.host_state import HostState
from scheduler.hosts.numa_pci import consumption, needs_of, room_of
from tests.builders import a_request
from tests.devices import a_pool, all_of, devices, wanted
from tests.hosts import a_host, a_table
from tests.numa import a_cell, a_guest, a_guest_cell, a_pinned_cell, a_topology, pages
from tests.numa_drawn import guests, rooms


def pinned_on(host):
    return [sorted(cell.pinned_cpus) for cell in host.numa_topology.cells]


def counts(host):
    return [(pool.numa_node, pool.count) for pool in host.pci_stats]


def asked(*cells, **changes):
    return a_request(numa_topology=a_guest(*cells), **changes)


def test_cells_and_devices_near_them_are_taken():
    host = a_host(
        numa_topology=a_topology(), pci_stats=devices(a_pool(2, 0), a_pool(2, 1), a_pool(2))
    )
    spec = asked(a_pinned_cell(0), a_pinned_cell(1), pci_requests=all_of(wanted(3)))
    host.consume_from_request(spec)
    assert pinned_on(host) == [[0, 1], [8, 9]]
    assert counts(host) == [(0, 0), (1, 1), (None, 2)]
    assert not host.table.warnings


def test_devices_alone_come_from_any_cell():
    host = a_host(numa_topology=a_topology(), pci_stats=devices(a_pool(1, 0), a_pool(1, 1)))
    host.consume_from_request(a_request(pci_requests=all_of(wanted(2, policy="required"))))
    assert counts(host) == [(0, 0), (1, 0)]
    assert host.numa_topology == a_topology()


def test_each_instance_is_fitted_from_the_request_as_it_came():
    # Nova keeps the cells and the page size of the first host in the request.
    small, large = pages(4, 1), pages(2048, 1024)
    table = a_table(
        a_host("h1", numa_topology=a_topology(a_cell(5, mempages=[small, pages(1048576, 2)]))),
        a_host("h2", numa_topology=a_topology(a_cell(3, mempages=[small, large]))),
    )
    spec = asked(a_guest_cell(memory=1024, pagesize=-2))
    before = deepcopy(spec)
    for row in (0, 1, 1):
        HostState.of(table, row).consume_from_request(spec)
    used = [
        [each.used for each in table.get(row, "numa_topology").cells[0].mempages] for row in (0, 1)
    ]
    assert used == [[0, 1], [0, 1024]]
    assert spec == before
    assert not table.warnings


def test_a_topology_that_rows_share_is_not_changed():
    shared = a_topology()
    table = a_table(*(a_host(name, numa_topology=shared) for name in ("h1", "h2")))
    copy = table.working_copy()
    HostState.of(copy, 0).consume_from_request(asked(a_guest_cell()))
    assert copy.get(0, "numa_topology").cells[0].cpu_usage == 2
    assert copy.get(1, "numa_topology") is shared
    assert table.get(0, "numa_topology") is shared
    assert shared == a_topology()


def test_where_only_one_side_has_cells_none_are_taken():
    host = a_host()
    host.consume_from_request(asked(a_guest_cell()))
    assert host.numa_topology is None
    host = a_host(numa_topology=a_topology())
    host.consume_from_request(a_request())
    assert host.numa_topology == a_topology()
    assert not host.table.warnings


def test_what_does_not_fit_is_not_counted_and_complained_about():
    host = a_host(numa_topology=a_topology(a_cell()), pci_stats=devices(a_pool(1, 1)))
    spec = asked(a_pinned_cell(cpus=9), pci_requests=all_of(wanted(1)))
    host.consume_from_request(spec)
    assert (host.vcpus_used, host.num_instances) == (2, 1)
    assert host.numa_topology == a_topology(a_cell())
    # Some device it will get.
    assert counts(host) == [(1, 0)]
    host.consume_from_request(spec)
    assert list(host.table.warnings) == [
        "NUMA cells of h1 (h1) are not counted: NUMA cell 0 fits nowhere:"
        " host cell 0: needs 9 CPUs to pin, 8 free of 8",
        "PCI devices of h1 (h1) are not counted: needs 1 of vendor_id=8086, 0 free",
    ]
    assert host.num_instances == 2


def test_devices_that_the_host_has_never_reported():
    host = a_host()
    host.consume_from_request(a_request(pci_requests=all_of(wanted(1))))
    assert list(host.table.warnings) == [
        "PCI devices of h1 (h1) are not counted: it has not reported any yet"
    ]
    assert host.pci_stats is None
    host.consume_from_request(a_request(pci_requests=all_of()))
    assert len(host.table.warnings) == 1


def test_the_table_may_say_that_cells_are_to_be_packed():
    def first_cell_after(packing):
        cells = [a_cell(0, cpu_usage=4), a_cell(1)]
        host = a_host(numa_topology=a_topology(*cells), cpu_allocation_ratio=4.0)
        if packing is not None:
            host.table.numa_packing = packing
        host.consume_from_request(asked(a_guest_cell()))
        return [cell.cpu_usage for cell in host.numa_topology.cells]

    assert first_cell_after(None) == [4, 2]
    assert first_cell_after(False) == [4, 2]
    assert first_cell_after(True) == [6, 0]


@given(rooms(), st.lists(guests(), max_size=3))
def test_what_the_filter_lets_pass_is_taken_in_full(room, drawn):
    host = a_host(
        numa_topology=room.topology,
        pci_stats=room.pools,
        cpu_allocation_ratio=room.ratios.cpu,
        ram_allocation_ratio=room.ratios.ram,
    )
    for guest in drawn:
        spec = a_request(
            numa_topology=guest.topology,
            network_metadata=guest.networks,
            pci_requests=all_of(*guest.devices),
        )
        passes = fits(room_of(host.table, 0), needs_of(spec))
        changes, _, _ = consumption(host.table, 0, spec)
        if passes:
            assert "numa_topology" in changes
            assert ("pci_stats" in changes) == bool(guest.devices)
            if guest.devices:
                wanted_devices = sum(request.count for request in guest.devices)
                assert host.pci_stats.free() - changes["pci_stats"].free() == wanted_devices
            host.table.warnings.clear()
        host.consume_from_request(spec)
        assert bool(passes) <= (not host.table.warnings)

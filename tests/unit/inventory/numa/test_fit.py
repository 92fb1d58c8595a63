# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.numa.fit."""

from copy import deepcopy
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.numa.cells import Ratios, with_usage
from inventory.numa.fit import GuestRequest, HostResources, fits, fitted, refusal
from inventory.objects.numa import InstanceNUMATopology
from inventory.objects.pci_and_network import NetworkMetadata
from inventory.pci_pools import PciPools
from tests.devices import a_pool, devices, wanted
from tests.numa import (
    a_cell,
    a_cell_with_threads,
    a_guest_cell,
    a_pinned_cell,
    a_room,
    needs,
    pages,
)
from tests.numa_drawn import guests, rooms

NO_RATIOS = Ratios(1.0, 1.0)


def ids(room, guest, packing=False):
    """Return the host cells of a guest, None when it has no place."""
    found = fitted(room, guest, packing)
    assert (found is not None) == fits(room, guest)
    assert (found is not None) == (refusal(room, guest) is None)
    return None if found is None else [cell.id for cell in found.cells]


def test_each_guest_cell_gets_a_host_cell_of_its_own():
    assert ids(a_room(), needs(a_guest_cell(0), a_guest_cell(1))) == [0, 1]
    three = needs(a_guest_cell(0), a_guest_cell(1), a_guest_cell(2))
    assert ids(a_room(), three) is None
    assert refusal(a_room(), three) == "needs 3 NUMA cells, the host has 2"


def test_the_fit_is_by_position_whatever_the_ids_are():
    # Nova finds no place for this guest, since it keys what it found out by ids that it changes.
    small, big = a_cell(0, memory=2048), a_cell(1, memory=8192)
    guest = needs(a_guest_cell(0, memory=1024), a_guest_cell(1, memory=4096))
    assert ids(a_room(big, small), guest) == [0, 1]
    assert ids(a_room(small, big), guest) == [0, 1]
    third = a_cell(2, memory=1024)
    for cells in permutations([big, small, third]):
        assert ids(a_room(*cells), guest)[1] == 1


def test_cells_of_equal_ids_are_still_told_apart():
    guest = needs(a_guest_cell(0, memory=1024), a_guest_cell(0, memory=4096))
    room = a_room(a_cell(1, memory=8192), a_cell(0, memory=2048))
    assert ids(room, guest) == [0, 1]


def test_the_request_stays_as_it_is():
    guest = needs(a_pinned_cell(pagesize=-2, memory=1024), emulator="isolate")
    room = a_room(a_cell(5, mempages=[pages(4, 1), pages(1048576, 1)]))
    before = deepcopy((room, guest))
    found = fitted(room, guest)
    assert (room, guest) == before
    (cell,) = found.cells
    assert (cell.id, cell.pagesize, cell.cpu_pinning) == (5, 1048576, {0: 40, 1: 41})
    assert cell.cpuset_reserved == {42}
    assert found.emulator_threads_policy == "isolate"


def test_only_the_first_cell_has_emulator_threads():
    guest = needs(a_pinned_cell(0, 8), a_pinned_cell(1, 7), emulator="isolate")
    assert ids(a_room(), guest) is None
    guest = needs(a_pinned_cell(0, 7), a_pinned_cell(1, 8), emulator="isolate")
    room = a_room(a_cell(0), a_cell(1))
    found = fitted(room, guest)
    assert [cell.cpuset_reserved for cell in found.cells] == [{7}, None]
    assert ids(a_room(), needs(a_pinned_cell(0, 8), a_pinned_cell(1, 8), emulator="share")) == [
        0,
        1,
    ]


class TestOrder:
    def test_cells_are_taken_as_they_come_when_all_are_needed(self):
        room = a_room(a_cell(1, memory_usage=4096), a_cell(0))
        assert ids(room, needs(a_guest_cell(0), a_guest_cell(1))) == [1, 0]

    @pytest.mark.parametrize(("packing", "first"), [(False, 2), (True, 0)])
    def test_by_free_memory(self, packing, first):
        cells = [a_cell(number, memory_usage=usage) for number, usage in enumerate([300, 200, 100])]
        assert ids(a_room(*cells), needs(a_guest_cell()), packing) == [first]

    @pytest.mark.parametrize(("packing", "first"), [(False, 0), (True, 1)])
    def test_rather_by_shared_cpus(self, packing, first):
        room = a_room(a_cell(0, memory_usage=300, cpu_usage=1), a_cell(1, cpu_usage=2))
        assert ids(room, needs(a_guest_cell()), packing) == [first]

    @pytest.mark.parametrize(("packing", "first"), [(False, 1), (True, 0)])
    def test_pinned_guests_by_free_cpus(self, packing, first):
        room = a_room(a_cell(0, pinned_cpus={1, 2}), a_cell(1, cpu_usage=9, memory_usage=300))
        assert ids(room, needs(a_pinned_cell()), packing) == [first]
        mixed = a_guest_cell(policy="mixed", pcpuset={2})
        assert ids(room, needs(mixed), packing) == [first]

    @pytest.mark.parametrize("packing", [False, True])
    def test_above_all_by_devices(self, packing):
        room = a_room(a_cell(0), a_cell(1, cpu_usage=3), pools=devices(a_pool(1, 0), a_pool(2, 1)))
        assert ids(room, needs(a_guest_cell()), packing) == [0]
        asking = needs(a_guest_cell(), devices=[wanted(policy="preferred")])
        assert ids(room, asking, packing) == [1]

    def test_equal_cells_stay_in_the_host_s_order(self):
        room = a_room(a_cell(2), a_cell(0), a_cell(1))
        assert ids(room, needs(a_guest_cell()), False) == [2]
        assert ids(room, needs(a_guest_cell()), True) == [2]


class TestDevices:
    def test_they_must_be_near_the_chosen_cells(self):
        room = a_room(pools=devices(a_pool(1, 1)))
        asking = needs(a_guest_cell(), devices=[wanted()])
        assert ids(room, asking) == [1]
        full = a_room(a_cell(0), a_cell(1, cpu_usage=32), pools=room.pools)
        assert ids(full, asking) is None
        assert refusal(full, asking) == (
            "needs 1 of vendor_id=8086 for NUMA cells 0 (policy legacy), 0 free,"
            " nor is there a better choice of NUMA cells"
        )

    def test_anywhere_when_near_is_only_preferred(self):
        room = a_room(a_cell(0), a_cell(1, cpu_usage=32), pools=devices(a_pool(1, 1)))
        assert ids(room, needs(a_guest_cell(), devices=[wanted(policy="preferred")])) == [0]

    def test_on_the_same_socket(self):
        cells = [a_cell(number, socket=number // 2, cpu_usage=32) for number in range(4)]
        cells[2].cpu_usage = 0
        asking = needs(a_guest_cell(), devices=[wanted(policy="socket")])
        assert ids(a_room(*cells, pools=devices(a_pool(1, 3))), asking) == [2]
        assert ids(a_room(*cells, pools=devices(a_pool(1, 1))), asking) is None

    def test_a_host_that_reports_none(self):
        asking = needs(a_guest_cell(), devices=[wanted()])
        assert refusal(a_room(), asking) == (
            "needs PCI devices, the host has not reported any yet,"
            " nor is there a better choice of NUMA cells"
        )

    def test_without_devices_it_does_not_matter_where_they_are(self):
        assert ids(a_room(pools=devices()), needs(a_guest_cell(), devices=[])) == [0]


class TestNetworks:
    def near(self, *physnets, tunneled=False):
        return NetworkMetadata(set(physnets), tunneled)

    def test_one_of_the_cells_must_be_near_a_network(self):
        room = a_room(a_cell(0), a_cell(1, network_metadata=self.near("p1")))
        assert ids(room, needs(a_guest_cell(), networks=self.near("p1"))) == [1]
        both = needs(a_guest_cell(0), a_guest_cell(1), networks=self.near("p1"))
        assert ids(room, both) == [0, 1]

    def test_a_network_that_no_cell_is_near_to_is_free(self):
        room = a_room(a_cell(0, network_metadata=self.near("p1")), a_cell(1))
        assert ids(room, needs(a_guest_cell(), networks=self.near("p2"))) == [0]
        assert ids(room, needs(a_guest_cell(), networks=self.near(tunneled=True))) == [0]

    def test_tunneled_networks(self):
        room = a_room(a_cell(0), a_cell(1, network_metadata=self.near(tunneled=True)))
        assert ids(room, needs(a_guest_cell(), networks=self.near(tunneled=True))) == [1]
        assert ids(room, needs(a_guest_cell(), networks=self.near())) == [0]

    def test_two_networks_on_two_cells(self):
        room = a_room(
            a_cell(0, network_metadata=self.near("p1")),
            a_cell(1, network_metadata=self.near("p2", tunneled=True)),
        )
        asking = needs(a_guest_cell(), networks=self.near("p1", "p2"))
        assert refusal(room, asking) == (
            "needs network p2, which is at NUMA cells 1, nor is there a better choice of NUMA cells"
        )
        asking = needs(a_guest_cell(), networks=self.near("p1", tunneled=True))
        assert "needs tunneled networks, which is at NUMA cells 1" in refusal(room, asking)
        both = needs(a_guest_cell(0), a_guest_cell(1), networks=self.near("p1", "p2"))
        assert ids(room, both) == [0, 1]


class TestThreads:
    asked = GuestRequest(None, threads=True)

    def test_hosts_without_threads_are_refused_even_without_cells(self):
        room = a_room(a_cell(0))
        assert not fits(room, self.asked)
        assert refusal(room, self.asked) == (
            "needs cores with several threads, but each core of the host has only one"
        )
        assert fitted(room, GuestRequest(needs(a_pinned_cell()).topology, threads=True)) is None

    def test_one_cell_with_threads_is_enough(self):
        room = a_room(a_cell(0), a_cell_with_threads(1))
        assert fits(room, self.asked)
        assert refusal(room, self.asked) is None
        assert fitted(room, self.asked) is None

    @pytest.mark.parametrize("topology", [None, a_room().topology.__class__()])
    def test_who_reports_no_cells_is_not_judged(self, topology):
        assert fits(HostResources(topology, NO_RATIOS), self.asked)


@pytest.mark.parametrize("topology", [None, a_room().topology.__class__()])
def test_a_host_without_cells(topology):
    room = HostResources(topology, NO_RATIOS)
    assert ids(room, needs(a_guest_cell())) is None
    assert refusal(room, needs(a_guest_cell())) == ("needs 1 NUMA cell, the host has reported none")


@pytest.mark.parametrize("topology", [None, InstanceNUMATopology()])
def test_a_guest_without_cells_fits_everywhere_and_takes_nothing(topology):
    for room in (a_room(), HostResources(None, NO_RATIOS)):
        assert fits(room, GuestRequest(topology))
        assert refusal(room, GuestRequest(topology)) is None
        assert fitted(room, GuestRequest(topology)) is None


def test_a_reason_tells_what_each_host_cell_lacks():
    room = a_room(a_cell(0, cpu_usage=31), a_cell(1, memory_usage=8000))
    assert refusal(room, needs(a_guest_cell())) == (
        "NUMA cell 0 fits nowhere: host cell 0: needs 2 CPUs, 1 left of 8 x 4;"
        " host cell 1: needs 2048 MB, 192 left of 8192 x 1"
    )


def test_a_reason_tells_when_only_one_of_several_has_room():
    room = a_room(a_cell(0), a_cell(1, memory_usage=8000))
    assert refusal(room, needs(a_guest_cell(0), a_guest_cell(1))) == (
        "the host's 2 NUMA cells have room for some cells, but not for all"
    )


def test_eight_cells_on_eight_with_one_place_for_the_first():
    cells = [a_cell(number, memory_usage=4096) for number in range(7)] + [a_cell(7)]
    guest = [a_guest_cell(number, 1) for number in range(8)]
    guest[0].memory = 8192
    assert ids(a_room(*cells), needs(*guest)) == [7, 0, 1, 2, 3, 4, 5, 6]
    guest[1].memory = 8192
    assert ids(a_room(*cells), needs(*guest)) is None


class CountingPools(PciPools):
    """Pools that count how often they are asked about many combinations of cells, and about one."""

    __slots__ = ("many", "single")

    def __init__(self, pools):
        super().__init__(pools)
        self.many = self.single = 0

    def which_support(self, *arguments):
        self.many += 1
        return super().which_support(*arguments)

    def refusal(self, *arguments):
        self.single += 1
        return super().refusal(*arguments)


class TestLargeHosts:
    """Of 16 cells, for guests of 8, which have 12,870 choices."""

    def a_room(self, *pools, **changes):
        cells = [a_cell(number, socket=number // 2) for number in range(16)]
        return a_room(*cells, pools=CountingPools(pools), **changes)

    def asking(self, *requests):
        return needs(*(a_guest_cell(number) for number in range(8)), devices=requests)

    def places(self, room, guest):
        """Return the host cells of a guest, which are found without trying one after the other."""
        found = ids(room, guest)
        assert room.pools.many <= 3
        # Of those that are asked about alone only the first ones are tried, or are the reason.
        assert room.pools.single <= 4
        return found

    def test_devices_on_every_other_cell(self):
        room = self.a_room(*(a_pool(1, number) for number in range(1, 16, 2)))
        assert self.places(room, self.asking(wanted(8))) == [*range(1, 16, 2)]
        room = self.a_room(*(a_pool(1, number) for number in range(1, 16, 2)))
        assert self.places(room, self.asking(*[wanted(1, policy="required")] * 8)) is not None
        for policy in ("legacy", "required", "socket"):
            room = self.a_room(*(a_pool(1, number) for number in range(1, 16, 2)))
            assert self.places(room, self.asking(wanted(9, policy=policy))) is None

    def test_most_devices_on_cells_without_the_ones_that_are_asked_for(self):
        cards = [a_pool(4, number, vendor_id="10de") for number in range(8)]
        room = self.a_room(*cards, *(a_pool(1, number) for number in range(8, 16)))
        assert self.places(room, self.asking(wanted(8))) == [*range(8, 16)]
        room = self.a_room(*cards, *(a_pool(1, number) for number in range(8, 15)))
        assert self.places(room, self.asking(wanted(8))) is None

    def test_two_kinds_of_devices_on_cells_of_their_own(self):
        gpu, port = {"product_id": "20b0"}, {"product_id": "1017"}
        pools = [
            *(a_pool(2, number, **gpu) for number in range(0, 16, 4)),
            *(a_pool(1, number, **port) for number in range(3, 16, 4)),
            *(a_pool(3, number, vendor_id="10de") for number in (1, 2, 5, 6)),
        ]
        both = self.asking(wanted(8, gpu), wanted(4, port, policy="required"))
        found = self.places(self.a_room(*pools), both)
        assert sorted(found) == [0, 3, 4, 7, 8, 11, 12, 15]
        more = self.asking(wanted(8, gpu), wanted(4, port, policy="required"), wanted(1, gpu))
        assert self.places(self.a_room(*pools), more) is None

    def test_devices_on_the_sockets_of_cells(self):
        room = self.a_room(*(a_pool(1, number) for number in range(1, 16, 2)))
        asking = self.asking(wanted(8, policy="socket"))
        for cell in room.cells[1::2]:
            cell.cpu_usage = 32
        assert self.places(room, asking) == [*range(0, 16, 2)]


def test_of_more_than_16_cells_with_devices_those_with_most_are_looked_at():
    cells = [a_cell(number) for number in range(20)]
    others = [a_pool(9, number, vendor_id="10de") for number in range(1, 20)]
    pools = devices(a_pool(4, 0), *(a_pool(1, number) for number in range(1, 20)), *others)
    two = a_guest_cell(0), a_guest_cell(1)
    assert ids(a_room(*cells, pools=pools), needs(*two, devices=[wanted(2)])) == [1, 2]
    asking = needs(*two, devices=[wanted(5)])
    assert ids(a_room(*cells, pools=pools), asking) is None
    assert refusal(a_room(*cells, pools=pools), asking) == (
        "finds no place in any of the tried combinations of the host's 20 NUMA cells"
    )
    assert ids(a_room(*cells[:16], pools=pools), asking) == [1, 0]


def test_guests_of_one_shape_fit_alike():
    one = needs(a_guest_cell(0), networks=NetworkMetadata({"p1"}))
    other = needs(a_guest_cell(3), networks=NetworkMetadata({"p1"}), devices=[wanted()])
    assert one.shape() == other.shape()
    assert hash(one.shape()) == hash(other.shape())
    for different in (
        needs(a_guest_cell(0)),
        needs(a_guest_cell(0), networks=NetworkMetadata({"p2"})),
        needs(a_guest_cell(0), networks=NetworkMetadata({"p1"}, tunneled=True)),
        needs(a_guest_cell(0), networks=NetworkMetadata({"p1"}), emulator="isolate"),
        needs(a_guest_cell(0, 3), networks=NetworkMetadata({"p1"})),
        needs(a_guest_cell(0, pagesize=-1), networks=NetworkMetadata({"p1"})),
        GuestRequest(one.topology, networks=one.networks, threads=True),
    ):
        assert different.shape() != one.shape()


def model_finds(room, guest, cells):
    """Return the first of all permutations of cells that does, by the rules as they are written.

    Thread policies are left out.
    """

    def pair(cell, each, index):
        memory = each.memory * 1024
        sizes = {every.size_kb: every for every in cell.mempages}
        cpu_limit, ram_limit = (len(cell.cpuset) * room.ratios.cpu, cell.memory * room.ratios.ram)
        pinned = each.cpu_policy == "dedicated"
        if pinned:
            extra = 1 if index == 0 and guest.emulator_threads == "isolate" else 0
            cpus = len(each.pcpuset) + extra <= len(cell.pcpuset - cell.pinned_cpus)
        else:
            cpus = (
                len(each.cpuset) <= len(cell.cpuset)
                and cell.cpu_usage + len(each.cpuset) <= cpu_limit
                and each.memory <= cell.memory
                and cell.memory_usage + each.memory <= ram_limit
            )
        if each.pagesize:
            allowed = {-1: sorted(sizes)[:1], -2: sorted(sizes)[1:], -3: sorted(sizes)}.get(
                each.pagesize, [each.pagesize]
            )
            room_in = [
                size
                for size in allowed
                if size in sizes and sizes[size].free * size >= memory and memory % size == 0
            ]
            return cpus and bool(room_in)
        if sizes:
            least = sizes[min(sizes)]
            count = least.free if pinned else least.total
            return cpus and count * least.size_kb >= memory and memory % least.size_kb == 0
        return cpus and (not pinned or each.memory <= cell.memory - cell.memory_usage)

    def together(cells):
        chosen = {cell.id for cell in cells}
        asked = guest.networks or NetworkMetadata()
        for holds in [
            *(lambda near, name=name: name in near.physnets for name in asked.physnets),
            *([lambda near: near.tunneled] if asked.tunneled else []),
        ]:
            at = {
                cell.id
                for cell in room.cells
                if cell.network_metadata and holds(cell.network_metadata)
            }
            if at and not at & chosen:
                return False
        if not guest.devices:
            return True
        pools = room.pools
        return pools is not None and pools.consume(guest.devices, cells, room.cells) is not None

    for chosen in permutations(cells, len(guest.cells)):
        pairs = enumerate(zip(chosen, guest.cells, strict=True))
        if all(pair(*both, index) for index, both in pairs) and together(chosen):
            return [cell.id for cell in chosen]
    return None


def by_preference(room, guest):
    """Return the cells of a host, the emptiest first, those with many or few devices above all."""
    if len(room.cells) == len(guest.cells):
        return room.cells
    pinned = all(cell.cpu_policy == "dedicated" for cell in guest.cells)

    def key(cell):
        count = sum(pool.count for pool in room.pools or () if pool.numa_node == cell.id)
        used = -cell.avail_pcpus if pinned else cell.cpu_usage
        return -count if guest.devices else count, used, -cell.avail_memory

    return sorted(room.cells, key=key)


@given(rooms(5), guests(4, plain=True))
def test_the_place_is_the_first_that_trying_everything_finds(room, guest):
    assert ids(room, guest) == model_finds(room, guest, by_preference(room, guest))


@given(rooms(), guests(), st.booleans())
def test_verdict_place_and_reason_agree(room, guest, packing):
    found = fitted(room, guest, packing)
    assert fits(room, guest) == (found is not None)
    reason = refusal(room, guest)
    assert (reason is None) == (found is not None)
    assert reason is None or "\n" not in reason


@given(rooms(), guests(), st.booleans())
def test_a_fitted_guest_never_takes_what_is_not_there(room, guest, packing):
    found = fitted(room, guest, packing)
    if found is None:
        return
    assert len({cell.id for cell in found.cells}) == len(guest.cells)
    before = {cell.id: cell for cell in room.cells}
    after = {cell.id: cell for cell in with_usage(room.topology, found).cells}
    for asked, got in zip(guest.cells, found.cells, strict=True):
        old, new = before[got.id], after[got.id]
        if asked.has_pinned_cpus:
            assert list(got.cpu_pinning) == sorted(asked.pcpuset)
            taken = new.pinned_cpus - old.pinned_cpus
            assert taken >= {*got.cpu_pinning.values(), *(got.cpuset_reserved or ())}
            assert old.free_pcpus >= taken
            assert len(taken) >= len(asked.pcpuset) + len(got.cpuset_reserved or ())
        if not asked.cpu_pinning_requested:
            assert new.cpu_usage <= len(old.cpuset) * room.ratios.cpu
            assert new.memory_usage <= old.memory * room.ratios.ram
        for each, one in zip(new.mempages, old.mempages, strict=True):
            if asked.has_pinned_cpus or asked.pagesize:
                assert each.used <= max(one.used, each.total - each.reserved)
        assert got.pagesize in (None, *(each.size_kb for each in old.mempages))


@given(rooms(), guests(), guests())
def test_a_second_guest_never_gets_a_pinned_cpu_of_the_first(room, one, other):
    first = fitted(room, one)
    if first is None:
        return
    used = HostResources(with_usage(room.topology, first), room.ratios, room.pools)
    second = fitted(used, other)
    if second is not None:
        reserved = {cpu for cell in first.cells for cpu in cell.cpuset_reserved or ()}
        assert second.cpu_pinning.isdisjoint(first.cpu_pinning | reserved)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.claims.numa_pci_usage."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from inventory import stored_documents
from inventory.claims.numa_pci_usage import (
    NUMA,
    PCI,
    cells_taken,
    devices_between,
    devices_taken,
    given_back,
    pools_with,
)
from inventory.objects import node_json
from tests.devices import a_pool
from tests.numa import a_cell, a_guest, a_guest_cell, a_pinned_cell, a_topology, pages

FREE = a_topology(*(a_cell(number, mempages=[pages(4, 8192 * 256)]) for number in (0, 1)))
FLOATING = a_guest(a_guest_cell(0), a_guest_cell(1))
PINNED = a_guest(a_pinned_cell(1, cpu_pinning={2: 8, 3: 9}))
POOLS = [a_pool(4), a_pool(1, numa_node=1), a_pool(2, product_id="10ed")]


def a_claim(cells=None, pools=None):
    return SimpleNamespace(
        instance_uuid="u1",
        numa=cells and node_json.guest_topology_to_json(cells),
        pci=pools and node_json.pci_pools_to_json(pools),
    )


def texts(cells, pools):
    return {NUMA: node_json.numa_topology_to_json(cells), PCI: node_json.pci_pools_to_json(pools)}


def by_kind(pools):
    return {(each.product_id, each.numa_node): each.count for each in pools}


def read(found):
    pools = node_json.pci_pools_from_json(found[PCI])
    return node_json.numa_topology_from_json(found[NUMA]), by_kind(pools)


CLAIMS = [
    a_claim(FLOATING),
    a_claim(PINNED, [a_pool(1)]),
    a_claim(None, [a_pool(2), a_pool(1, numa_node=1)]),
    a_claim(None, [a_pool(2, product_id="10ed")]),
    a_claim(),
]


def test_claims_take_cells_and_devices():
    cells = cells_taken(FREE, CLAIMS)
    first, second = cells.cells
    assert (first.cpu_usage, first.memory_usage, first.pinned_cpus) == (2, 2048, set())
    assert (second.cpu_usage, second.memory_usage, second.pinned_cpus) == (2, 2560, {8, 9})
    assert second.mempages[0].used == 2560 * 256
    left = {("1520", None): 1, ("1520", 1): 0, ("10ed", None): 0}
    assert by_kind(devices_taken(POOLS, CLAIMS)) == left
    assert FREE.cells[1].pinned_cpus == set()


@given(st.permutations(CLAIMS), st.integers(0, len(CLAIMS)))
def test_giving_back_undoes_taking_in_any_order(claims, number):
    cells = cells_taken(FREE, CLAIMS)
    pools = devices_taken(POOLS, CLAIMS)
    back, kept = claims[:number], claims[number:]
    left, free = read(given_back(texts(cells, pools), back))
    assert left == cells_taken(FREE, kept)
    assert free == by_kind(devices_taken(POOLS, kept))


def test_documents_that_no_claim_is_about_stay_as_they_are():
    known = {NUMA: "not read", PCI: None}
    assert given_back({NUMA: None, PCI: "[]"}, [a_claim()]) == {NUMA: None, PCI: "[]"}
    assert given_back(known | {NUMA: None}, [a_claim()]) == {NUMA: None, PCI: None}
    # A node that has no cells any more has none to be given back.
    assert given_back({NUMA: None, PCI: None}, [a_claim(FLOATING)]) == {NUMA: None, PCI: None}
    assert given_back({}, []) == {}


def test_pools_are_told_apart_by_all_but_their_count():
    pools = [a_pool(1, tag="a"), a_pool(1, tag="b")]
    assert pools_with(pools, [a_pool(2, tag="b")], 1) == [a_pool(1, tag="a"), a_pool(3, tag="b")]
    used = [a_pool(0, tag="a"), a_pool(1, tag="b")]
    assert pools_with(pools, [a_pool(1, tag="a")], -1) == used
    assert pools_with(pools, [a_pool(5, tag="a"), a_pool(5, tag="c")], -1) == used
    assert pools_with(used, [a_pool(1, tag="a")], 1) == pools
    assert pools_with([], [a_pool(1)], 1) == [a_pool(1)]


def test_a_claim_says_nothing_of_totals():
    """It may have been made by the release before, which knows none."""
    pools = [a_pool(4, total=4)]
    assert pools_with(pools, [a_pool(4)], -1) == [a_pool(0, total=4)]
    assert devices_between(pools, [a_pool(1, total=4)]) == [a_pool(3)]


def test_the_difference_is_what_was_taken():
    after = [a_pool(1), a_pool(1, numa_node=1)]
    assert devices_between(POOLS, after) == [a_pool(3), a_pool(2, product_id="10ed")]
    assert devices_between(POOLS, POOLS) == []


def test_a_claim_with_unreadable_documents_costs_no_other(caplog):
    stored_documents.warn.cache_clear()
    good = CLAIMS[1]
    for text in ("{", "7", "[{}]"):
        bad = SimpleNamespace(numa=text, pci=text, instance_uuid="u-bad")
        assert cells_taken(FREE, [bad, good]) == cells_taken(FREE, [good])
        assert devices_taken(POOLS, [bad, good]) == devices_taken(POOLS, [good])
        assert given_back(texts(FREE, POOLS), [bad, good]) == given_back(texts(FREE, POOLS), [good])
        node = {NUMA: text, PCI: text}
        assert given_back(node, [good]) == node
    assert "Column pci_stats of the compute node with the claim of instance u1 c" in caplog.text
    assert "The numa_topology of the claim of instance u-bad cannot be read" in caplog.text

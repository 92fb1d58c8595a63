# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which requests for PCI devices a host can serve, and what it has left then."""

import dataclasses
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.objects.pci_and_network import InstancePCIRequest
from inventory.pci_pools import PciPools
from tests.devices import WORKED_CASES, a_pool, devices, host_cells, wanted

VENDOR, PRODUCT = {"vendor_id": "8086"}, {"product_id": "1520"}
PF, VDPA, REMOTE = {"dev_type": "type-PF"}, {"dev_type": "vdpa"}, {"remote_managed": "true"}


def counts(pools):
    return None if pools is None else [pool.count for pool in pools]


@pytest.mark.parametrize(
    ("pools", "requests", "refusal"),
    [
        *WORKED_CASES,
        # And what follows from its rules.
        ([a_pool(**VDPA)], [wanted(1, VENDOR, VDPA)], None),
        ([a_pool(**REMOTE)], [wanted(1, REMOTE)], None),
        (
            [a_pool(remote_managed="True")],
            [wanted(1)],
            "needs 1 of vendor_id=8086, 0 free besides remote_managed=true",
        ),
        ([a_pool(remote_managed="false")], [wanted(1)], None),
        # What is not given away unasked does not count as free, but is listed.
        (
            [a_pool(1), a_pool(5, **PF), a_pool(3, **REMOTE)],
            [wanted(1), wanted(2)],
            "needs 2 of vendor_id=8086, 0 left by the other requests of this instance"
            " besides dev_type=type-PF or remote_managed=true",
        ),
        (
            [a_pool(**PF)],
            [wanted(1, PRODUCT | VDPA)],
            "needs 1 of product_id=1520 dev_type=vdpa, none reported",
        ),
        ([a_pool()], [], None),
        ([], [wanted(0)], None),
        ([a_pool()], [InstancePCIRequest(1)], "needs 1 of no device, none reported"),
        ([], [wanted(1, {})], "needs 1 of any device, none reported"),
        # Where totals are known, devices that are in use are told from none.
        ([a_pool(0)], [wanted(1)], "needs 1 of vendor_id=8086, 0 free"),
        ([a_pool(0, total=4)], [wanted(1)], "needs 1 of vendor_id=8086, 0 free of 4"),
        (
            [a_pool(1, total=4), a_pool(0, 1, total=2), a_pool(0, **PF, total=1)],
            [wanted(2)],
            "needs 2 of vendor_id=8086, 1 free of 6",
        ),
        ([a_pool(0, total=4), a_pool(1, 1)], [wanted(2)], "needs 2 of vendor_id=8086, 1 free"),
        ([a_pool(0, **PF, total=1)], [wanted(1)], "needs 1 of vendor_id=8086, none reported"),
        ([a_pool()], [wanted(1, {})], None),
    ],
)
def test_who_is_served(pools, requests, refusal):
    found = devices(*pools)
    assert found.refusal(requests) == refusal
    assert found.support_requests(requests) == (refusal is None)
    assert (found.consume(requests) is None) == (refusal is not None)


@pytest.mark.parametrize(
    ("tags", "alternatives", "match"),
    [
        ({"dev_type": "type-VF"}, [{"dev_type": "TYPE-vf"}], True),
        ({"product_id": "15AB"}, [{"product_id": "15ab"}], True),
        ({}, [{"vendor_id": "8086", "product_id": "1521"}], False),
        ({}, [{"product_id": "1521"}, {"product_id": "1520"}], True),
        ({}, [{"physical_network": None}], True),
        ({"physical_network": None}, [{"physical_network": None}], True),
        ({"physical_network": "physnet1"}, [{"physical_network": None}], False),
        ({}, [{"physical_network": "None"}], False),
        ({"trusted": "true"}, [{"trusted": True}], True),
        ({"numa_node": 1}, [{"numa_node": "1"}], True),
        ({"numa_node": 1}, [{"numa_node": "0"}], False),
        ({}, [{"numa_node": None}], True),
        ({"capabilities": ["vlan", "rx", "tx"]}, [{"capabilities": ["tx", "rx"]}], True),
        ({"capabilities": ["vlan", "rx"]}, [{"capabilities": ["tx", "rx"]}], False),
        ({"capabilities": "rx"}, [{"capabilities": ["rx"]}], False),
        ({}, [VENDOR | {"resource_class": "CUSTOM_X", "traits": "T", "rp_uuids": "u"}], True),
        # Devices that can be migrated with their guest, and those that cannot.
        ({"live_migratable": "true"}, [{"live_migratable": "true"}], True),
        ({"live_migratable": "false"}, [{"live_migratable": "true"}], False),
        ({}, [{"live_migratable": "true"}], False),
        ({"live_migratable": "true"}, [{"live_migratable": "false"}], False),
        ({"live_migratable": "true"}, [{"live_migratable": "false"}, VENDOR], True),
        ({"live_migratable": "true"}, [VENDOR], True),
        ({"live_migratable": "false"}, [VENDOR], True),
        # A kind that must be asked for may be named by another alternative than the one that fits.
        ({"dev_type": "type-PF"}, [VENDOR, {"product_id": "x", "dev_type": "Type-pf"}], True),
        ({"dev_type": "type-PF"}, [VENDOR, {"dev_type": "vdpa"}], False),
        ({"remote_managed": "1"}, [VENDOR, {"product_id": "x", "remote_managed": "yes"}], True),
        ({"remote_managed": "1"}, [VENDOR | {"remote_managed": "false"}], False),
    ],
)
def test_a_pool_must_have_all_properties_of_one_alternative(tags, alternatives, match):
    assert devices(a_pool(**tags)).support_requests([wanted(1, *alternatives)]) == match


@pytest.mark.parametrize(
    ("requests", "left"),
    [
        ([], [2, 3, 1]),
        ([wanted(1)], [1, 3, 1]),
        ([wanted(2)], [0, 3, 1]),
        ([wanted(4)], [0, 1, 1]),
        ([wanted(6)], [0, 0, 0]),
        ([wanted(1, {"physical_network": "b"}), wanted(3)], [0, 1, 1]),
        ([wanted(7)], None),
        ([wanted(-1)], [2, 3, 1]),
    ],
)
def test_pools_are_emptied_in_their_order_and_stay(requests, left):
    before = devices(
        a_pool(2), a_pool(3, physical_network="b"), a_pool(1, physical_network="c", numa_node=1)
    )
    assert counts(before.consume(requests)) == left
    assert counts(before) == [2, 3, 1]


def test_pools_with_the_fewest_tags_are_emptied_first():
    # What is special is left for requests that ask for it; the rest keeps its order.
    special, plain = a_pool(2, physical_network="b"), a_pool(3, product_id="1521")
    pools = devices(special, plain, a_pool(4), a_pool(1, physical_network="c"))
    assert counts(pools) == [3, 4, 2, 1]
    assert counts(pools.consume([wanted(8)])) == [0, 0, 1, 1]


def test_what_is_not_taken_stays_as_it_is():
    first, second = a_pool(1, total=1), a_pool(2, 1, physical_network="b")
    (used, left) = devices(first, second).consume([wanted(1)])
    assert used == dataclasses.replace(first, count=0)
    assert left is second
    (_, less) = devices(first, second).consume([wanted(1, {"physical_network": "b"})])
    assert less == dataclasses.replace(second, count=1)


def test_one_order_of_requests_may_fail_where_another_does_not():
    # As on the compute host, which hands out what is claimed here.
    pools = devices(a_pool(1), a_pool(1, product_id="1521"))
    general, special = wanted(1, VENDOR), wanted(1, PRODUCT)
    assert pools.consume([general, special]) is None
    assert counts(pools.consume([special, general])) == [0, 0]


NEAR, FAR, UNKNOWN = a_pool(2, 0), a_pool(2, 1), a_pool(2, None)


@pytest.mark.parametrize(
    ("pools", "count", "policy", "left"),
    [
        ([FAR, NEAR], 2, "required", [2, 0]),
        ([FAR, NEAR], 3, "required", None),
        ([UNKNOWN], 1, "required", None),
        ([UNKNOWN], 1, None, [1]),
        ([UNKNOWN], 1, "legacy", [1]),
        ([UNKNOWN, NEAR], 2, "legacy", [2, 0]),
        ([UNKNOWN, NEAR], 3, "legacy", [0, 1]),
        ([FAR], 1, "legacy", None),
        ([FAR], 1, "preferred", [1]),
        ([FAR, UNKNOWN, NEAR], 1, "preferred", [2, 2, 1]),
        ([FAR, UNKNOWN, NEAR], 3, "preferred", [2, 0, 1]),
        ([FAR, UNKNOWN, NEAR], 5, "preferred", [1, 0, 0]),
        ([FAR, UNKNOWN, NEAR], 7, "preferred", None),
        ([FAR], 1, "closest", None),
        ([NEAR], 1, "closest", [1]),
    ],
)
def test_devices_are_near_the_guest_as_the_policy_says(pools, count, policy, left):
    requests = [wanted(count, policy=policy)]
    cells = host_cells(0, 1)
    found = devices(*pools).consume(requests, cells[:1], cells)
    assert counts(found) == left
    assert devices(*pools).support_requests(requests, cells[:1]) == (left is not None)


@pytest.mark.parametrize(
    ("sockets", "node", "left"),
    [
        ((0, 0, 1), 1, [1]),
        ((0, 0, 1), 2, None),
        ((0, 0, 1), None, None),
        ((0, 0, None), 1, None),
        ((0, 0, None), 0, [1]),
        ((), 1, None),
        ((), 0, [1]),
    ],
)
def test_devices_on_the_same_socket(sockets, node, left):
    requests = [wanted(1, policy="socket")]
    pools = devices(a_pool(2, node))
    assert counts(pools.consume(requests, host_cells(0), host_cells(*sockets))) == left


def test_without_cells_the_policy_does_not_matter():
    for policy in ("required", "socket", "legacy", "preferred", None):
        assert devices(FAR).support_requests([wanted(2, policy=policy)])


def test_devices_near_any_cell_of_the_guest_serve():
    cells = host_cells(0, 0)
    assert counts(devices(NEAR, FAR).consume([wanted(3, policy="required")], cells)) == [0, 1]


def test_a_refusal_names_cells_and_policy_in_one_line():
    either = wanted(2, {"vendor_id": "8086", "tag": "a\nb"}, PRODUCT, policy="required")
    cells = host_cells(0, 0)
    assert devices(NEAR, FAR).refusal([wanted(3), either], cells) == (
        "needs 2 of vendor_id=8086 tag=a b or product_id=1520 for NUMA cells 0, 1"
        " (policy required), 1 left by the other requests of this instance"
    )
    assert devices(FAR).refusal([wanted(1)], cells[:1]) == (
        "needs 1 of vendor_id=8086 for NUMA cells 0 (policy legacy), 0 free"
    )


def test_free_devices_are_counted_by_cell():
    pools = devices(
        a_pool(3, 0), a_pool(4, 1), a_pool(5, 0, **PF), a_pool(1), a_pool(7, 0, vendor_id="10de")
    )
    assert pools.free() == 20
    assert [pools.free_on(cell) for cell in (0, 1, 2)] == [15, 4, 0]


def test_pools_are_a_value_of_their_own():
    pools = devices(a_pool(2), a_pool(0), a_pool(-1))
    assert len(pools) == len(list(pools)) == 2
    assert pools != devices(a_pool(2))
    assert len({pools, pools}) == 1
    assert "count=2" in repr(pools)
    # As Nova's are, though there be none: the host has reported.
    assert bool(PciPools())


# A device serves a request as this says, which is as simple as it is slow.

_KINDS = st.just({}) | st.fixed_dictionaries(
    {"product_id": st.sampled_from(["1520", "1521"])},
    optional={
        "dev_type": st.sampled_from(["type-PF", "type-VF", "vdpa"]),
        "remote_managed": st.sampled_from(["true", "false"]),
        "physical_network": st.sampled_from(["p1", "p2", None]),
    },
)
_WISHES = st.just({"vendor_id": "8086"}) | st.fixed_dictionaries(
    {},
    optional={
        "product_id": st.sampled_from(["1520", "1521"]),
        "dev_type": st.sampled_from(["type-PF", "TYPE-VF", "vdpa"]),
        "remote_managed": st.sampled_from(["true", "false"]),
        "physical_network": st.sampled_from(["p1", "P2", None]),
    },
)
_POOLS = st.lists(
    st.builds(
        lambda count, node, tags: a_pool(count, node, **tags),
        st.integers(0, 5),
        st.none() | st.integers(0, 3),
        _KINDS,
    ),
    max_size=5,
)
_REQUESTS = st.lists(
    st.builds(
        lambda count, wishes, policy: wanted(count, *wishes, policy=policy),
        st.integers(1, 3),
        st.lists(_WISHES, min_size=1, max_size=2),
        st.none() | st.sampled_from(["required", "socket", "legacy", "preferred"]),
    ),
    max_size=3,
)
_CELLS = st.lists(st.integers(0, 3), max_size=2, unique=True)
_SOCKETS = st.sampled_from([(0, 0, 1, 1), (0, 1, 2, 3), (0, 0, 0, None)])


def low(value):
    return None if value is None else value.lower()


def suits(pool, request):
    mine = {"vendor_id": "8086", "product_id": pool.product_id} | pool.tags
    return any(all(low(mine.get(k)) == low(v) for k, v in each.items()) for each in request.spec)


def is_meant(pool, request):
    asked = {low(each.get("dev_type")) for each in request.spec}
    if pool.tags.get("dev_type") in {"type-PF", "vdpa"}:
        return low(pool.tags["dev_type"]) in asked
    return True


def is_local(pool, request):
    return pool.tags.get("remote_managed") != "true" or any(
        each.get("remote_managed") == "true" for each in request.spec
    )


def rings(policy, cells, sockets):
    """Return the sets of NUMA nodes that a policy admits, the narrowest first."""
    near = set(cells)
    socket = {n for n in range(4) if any(sockets[n] == sockets[cell] for cell in cells)}
    return {
        "required": [near],
        "socket": [near, set() if None in sockets else socket],
        "preferred": [near, near | {None}, {None, 0, 1, 2, 3}],
    }.get(policy, [near, near | {None}])


def by_tags(pools):
    return sorted(pools, key=lambda pool: len(pool.tags))


def taken_one_by_one(pools, requests, cells, sockets):
    """Return the devices that are left, each by itself, or None."""
    left = [pool for pool in by_tags(pools) for _ in range(pool.count)]
    for request in requests:
        usable = [each for each in left if suits(each, request)]
        if cells:
            choices = rings(request.numa_policy, cells, sockets)
            inside = [[each for each in usable if each.numa_node in nodes] for nodes in choices]
            usable = next((each for each in inside if len(each) >= request.count), inside[-1])
            if request.numa_policy == "preferred":
                usable.sort(key=lambda each: each.numa_node not in {*cells, None})
        usable = [each for each in usable if is_meant(each, request) and is_local(each, request)]
        if len(usable) < request.count:
            return None
        for each in usable[: request.count]:
            left.pop(next(index for index, other in enumerate(left) if other is each))
    return left


@given(_POOLS, _REQUESTS, _CELLS, _SOCKETS)
def test_pools_are_as_good_as_single_devices(pools, requests, cells, sockets):
    on_host = host_cells(*sockets)
    chosen = [on_host[cell] for cell in cells]
    before = devices(*pools)
    after = before.consume(requests, chosen, on_host)
    left = taken_one_by_one(pools, requests, cells, sockets)
    assert (
        (after is None) == (left is None) == (before.refusal(requests, chosen, on_host) is not None)
    )
    if after is not None:
        expected = [
            dataclasses.replace(pool, count=sum(each is pool for each in left))
            for pool in by_tags(pools)
        ]
        assert list(after) == expected
        assert before.free() - after.free() == sum(request.count for request in requests)
    assert list(before) == by_tags(pools)


@given(_POOLS, _REQUESTS, _SOCKETS)
def test_many_combinations_of_cells_are_judged_as_each_by_itself(pools, requests, sockets):
    on_host = host_cells(*sockets)
    every = [some for size in range(1, 5) for some in combinations(range(4), size)]
    chosen = {cell: np.array([cell in some for some in every], np.uint8) for cell in range(4)}
    found = np.broadcast_to(devices(*pools).which_support(requests, chosen, on_host), len(every))
    alone = [
        devices(*pools).consume(requests, [on_host[cell] for cell in some], on_host) is not None
        for some in every
    ]
    assert found.tolist() == alone


def test_large_numbers_of_devices_are_judged():
    pools, chosen = devices(a_pool(10**15, 0)), {0: np.array([1, 0], np.uint8)}
    for count, served in ((10**15, [True, False]), (1, [True, False]), (-1, [True, True])):
        which = pools.which_support([wanted(count)], chosen, host_cells(0, 0))
        assert np.broadcast_to(which, 2).tolist() == served
    assert not pools.which_support([wanted(10**30)], chosen, host_cells(0, 0))


def can_be_shared_out(left, requests):
    """Return whether any choice of devices serves all requests, one device at a time."""
    if not requests:
        return True
    request, *others = requests
    rest = others if request.count == 1 else [wanted(request.count - 1, *request.spec), *others]
    return any(
        can_be_shared_out(left[:index] + left[index + 1 :], rest)
        for index, pool in enumerate(left)
        if pool not in left[:index]
        and suits(pool, request)
        and is_meant(pool, request)
        and is_local(pool, request)
    )


_FEW = st.lists(st.builds(wanted, st.integers(1, 2), _WISHES), min_size=1, max_size=3)


@given(_POOLS.map(lambda pools: pools[:3]), _FEW)
def test_nothing_is_promised_that_cannot_be_had(pools, requests):
    single = [dataclasses.replace(pool, count=1) for pool in pools for _ in range(pool.count)]
    served = devices(*pools).consume(requests) is not None
    possible = can_be_shared_out(single, requests)
    assert possible or not served
    # Requests that want the same, or nothing in common, cannot stand in each other's way.
    if all(request.spec == requests[0].spec for request in requests):
        assert served == possible

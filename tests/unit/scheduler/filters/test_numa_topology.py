# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.numa_topology."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.objects.pci_and_network import NetworkMetadata
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.filters.numa_topology import NUMATopologyFilter
from scheduler.hosts.host_state import HostState
from scheduler.objects.selection import NUMATopologyLimits
from tests.builders import a_request, an_image
from tests.devices import a_pool, all_of, devices, wanted
from tests.hosts import a_host, a_table
from tests.numa import (
    a_cell,
    a_cell_with_threads,
    a_guest,
    a_guest_cell,
    a_pinned_cell,
    a_topology,
    pages,
)
from tests.numa_drawn import guests, rooms

RULE = NUMATopologyFilter()
DEDICATED = {"hw:cpu_policy": "dedicated"}
REQUIRE = {"hw:cpu_thread_policy": "require"}


def numa_host(*cells, host="h1", cpu=4.0, ram=1.0, **attributes):
    return a_host(
        host,
        numa_topology=a_topology(*cells),
        cpu_allocation_ratio=cpu,
        ram_allocation_ratio=ram,
        **attributes,
    )


def asked(*cells, **changes):
    return a_request(numa_topology=a_guest(*cells), **changes)


def two_cells_of_pages():
    return [a_cell(number, mempages=[pages(4, 10**6), pages(2048, 512)]) for number in (0, 1)]


# Reference 1.11: cells of 8 CPUs and 8192 MB, ratios cpu 4.0 and ram 1.0 unless stated.
WORKED_CASES = [
    (a_host(), a_request(), None),
    (a_host(), asked(a_guest_cell()), "needs 1 NUMA cell, the host has reported none"),
    (numa_host(), asked(a_guest_cell(0), a_guest_cell(1)), None),
    (
        numa_host(),
        asked(a_guest_cell(0), a_guest_cell(1), a_guest_cell(2)),
        "needs 3 NUMA cells, the host has 2",
    ),
    (
        numa_host(a_cell(), cpu=16.0),
        asked(a_guest_cell(cpus=9)),
        "NUMA cell 0 fits nowhere: host cell 0: needs 9 CPUs, the cell has only 8",
    ),
    (numa_host(a_cell(cpu_usage=30)), asked(a_guest_cell()), None),
    (
        numa_host(a_cell(cpu_usage=31)),
        asked(a_guest_cell()),
        "NUMA cell 0 fits nowhere: host cell 0: needs 2 CPUs, 1 left of 8 x 4",
    ),
    (numa_host(a_cell(memory_usage=7168)), asked(a_guest_cell(memory=1024)), None),
    (
        numa_host(a_cell(memory_usage=7169)),
        asked(a_guest_cell(memory=1024)),
        "NUMA cell 0 fits nowhere: host cell 0: needs 1024 MB, 1023 left of 8192 x 1",
    ),
    (numa_host(a_cell(memory_usage=8192), ram=1.5), asked(a_guest_cell(memory=4096)), None),
    (
        numa_host(a_cell(), ram=4.0),
        asked(a_guest_cell(memory=8193)),
        "NUMA cell 0 fits nowhere: host cell 0: needs 8193 MB, the cell has only 8192",
    ),
    (numa_host(a_cell(pinned_cpus={0, 1})), asked(a_pinned_cell(cpus=6)), None),
    (
        numa_host(a_cell(pinned_cpus={0, 1})),
        asked(a_pinned_cell(cpus=7)),
        "NUMA cell 0 fits nowhere: host cell 0: needs 7 CPUs to pin, 6 free of 8",
    ),
    (
        numa_host(a_cell(memory_usage=8000), ram=4.0),
        asked(a_pinned_cell(memory=512)),
        "NUMA cell 0 fits nowhere: host cell 0: needs 512 MB, 192 free of 8192",
    ),
    (
        numa_host(),
        a_request(extra_specs=DEDICATED | REQUIRE),
        "needs cores with several threads, but each core of the host has only one",
    ),
    (numa_host(*two_cells_of_pages()), asked(a_guest_cell(memory=1024, pagesize=2048)), None),
    (
        numa_host(*two_cells_of_pages()[:1]),
        asked(a_guest_cell(memory=1026, pagesize=2048)),
        "NUMA cell 0 fits nowhere: host cell 0:"
        " needs 1026 MB in whole pages of 2048 KB, free are 512 of 2048 KB",
    ),
    (
        numa_host(*two_cells_of_pages()[:1]),
        asked(a_guest_cell(memory=513, pagesize=2048)),
        "NUMA cell 0 fits nowhere: host cell 0:"
        " needs 513 MB in whole pages of 2048 KB, free are 512 of 2048 KB",
    ),
    (
        numa_host(a_cell(mempages=[pages(4, 1572864)]), ram=2.0),
        asked(a_guest_cell(memory=6144)),
        None,
    ),
    (
        numa_host(a_cell(mempages=[pages(4, 1572864)]), ram=2.0),
        asked(a_guest_cell(memory=6145)),
        "NUMA cell 0 fits nowhere: host cell 0:"
        " needs 6145 MB in whole pages, usable are 1572864 of 4 KB",
    ),
]


@pytest.mark.parametrize(("host", "spec", "refused"), WORKED_CASES)
def test_worked_cases(host, spec, refused):
    host.limits = {}
    assert RULE.host_passes(host, spec) == (refused is None)
    if refused is not None:
        assert RULE.reason(host, spec) == refused
    written = refused is None and spec.numa_topology is not None
    assert ("numa_topology" in host.limits) == written
    table = a_table(host)
    mask = RULE.mask(table, spec) if RULE.applies(spec) else np.ones(1, np.bool_)
    assert mask.tolist() == [refused is None]
    assert dict(HostState.of(table, 0).limits) == dict(host.limits)
    assert not table.warnings


def test_unlike_nova_no_candidates_of_placement_are_needed():
    # Nova fits a guest for each of them and refuses every host where there are none; here there is
    # no Placement, and the request has no place for any.
    assert RULE.host_passes(numa_host(a_cell()), asked(a_guest_cell()))


@pytest.mark.parametrize(
    ("spec", "applies"),
    [
        (a_request(), False),
        (a_request(numa_topology=a_guest()), True),
        (a_request(numa_topology=type(a_guest())()), False),
        (a_request(extra_specs=DEDICATED), False),
        (a_request(extra_specs=REQUIRE), False),
        (a_request(extra_specs=DEDICATED | REQUIRE), True),
        (a_request(image=an_image(hw_cpu_policy="dedicated"), extra_specs=REQUIRE), True),
        (
            a_request(image=an_image(hw_cpu_policy="dedicated", hw_cpu_thread_policy="require")),
            True,
        ),
        (a_request(image=an_image(hw_cpu_policy="dedicated")), False),
        (a_request(image=an_image(), extra_specs={"hw:cpu_policy": "shared"} | REQUIRE), False),
    ],
)
def test_it_applies_to_who_wants_cells_or_threads(spec, applies):
    assert RULE.applies(spec) == applies


def test_threads_are_wanted_of_hosts_that_report_cells():
    spec = a_request(extra_specs=DEDICATED | REQUIRE)
    table = a_table(
        a_host("none"),
        numa_host(host="single"),
        numa_host(a_cell(0), a_cell_with_threads(1), host="threads"),
    )
    assert RULE.mask(table, spec).tolist() == [True, False, True]
    assert all(not HostState.of(table, row).limits for row in range(3))


def test_the_limit_has_the_ratios_of_the_host_and_the_networks_of_the_request():
    networks = NetworkMetadata({"p1"})
    spec = asked(a_guest_cell(), network_metadata=networks)
    table = a_table(
        numa_host(host="a", cpu=3.0, ram=1.5),
        numa_host(host="b", cpu=4.0),
        numa_host(a_cell(cpu_usage=99), host="full"),
    )
    assert RULE.mask(table, spec).tolist() == [True, True, False]
    limits = [HostState.of(table, row).limits.get("numa_topology") for row in range(3)]
    assert limits == [
        NUMATopologyLimits(3.0, 1.5, networks),
        NUMATopologyLimits(4.0, 1.0, networks),
        None,
    ]


def test_pinned_guests_need_no_ratios():
    table = a_table(numa_host(cpu=None, ram=None))
    assert RULE.mask(table, asked(a_pinned_cell())).tolist() == [True]
    limit = HostState.of(table, 0).limits["numa_topology"]
    assert limit == NUMATopologyLimits(0.0, 0.0)
    assert RULE.mask(table, asked(a_guest_cell())).tolist() == [False]
    assert "is not known" in RULE.reason(HostState.of(table, 0), asked(a_guest_cell()))


@pytest.mark.parametrize(
    ("requests", "passing"),
    [
        (None, [True, True, True]),
        (all_of(), [True, True, True]),
        (all_of(wanted(1)), [True, False, False]),
    ],
)
def test_devices_count_only_for_who_asks_for_them(requests, passing):
    table = a_table(
        numa_host(host="near", pci_stats=devices(a_pool(1, 1))),
        numa_host(a_cell(0), host="far", pci_stats=devices(a_pool(1, 1))),
        numa_host(host="unknown"),
    )
    spec = asked(a_guest_cell(), pci_requests=requests)
    assert RULE.columns_read(spec) == RULE.reads[: 4 if requests and requests.requests else 3]
    assert RULE.mask(table, spec).tolist() == passing
    # Nor does it matter what was found out for others.
    assert RULE.mask(table, asked(a_guest_cell())).tolist() == [True, True, True]
    assert RULE.mask(table, spec).tolist() == passing
    if not passing[2]:
        assert "has not reported any" in RULE.reason(HostState.of(table, 2), spec)


def test_a_reason_that_is_asked_for_without_need():
    assert RULE.reason(numa_host(), asked(a_guest_cell())) == "does not pass"


def test_one_candidate_among_many_is_asked_alone():
    hosts = [numa_host(a_cell(cpu_usage=row % 40), host=f"h{row}") for row in range(120)]
    table = a_table(*hosts)
    spec = asked(a_guest_cell())
    everywhere = RULE.mask(table, spec)
    assert everywhere.tolist() == [row % 40 <= 30 for row in range(120)]
    for row in (0, 31):
        table.candidates = np.arange(120) == row
        assert RULE.mask(table, spec).tolist() == [
            each == row and everywhere[each] for each in range(120)
        ]
    table.candidates = np.zeros(120, np.bool_)
    assert not RULE.mask(table, spec).any()


@pytest.mark.parametrize("ratios", [2, 5, 8])
def test_hosts_that_over_commit_differently(ratios):
    # So many that it is found out for each host by itself.
    hosts = [
        numa_host(a_cell(cpu_usage=6), host=f"h{row}", cpu=float(row % ratios)) for row in range(9)
    ]
    mask = RULE.mask(a_table(*hosts), asked(a_guest_cell()))
    assert mask.tolist() == [row % ratios >= 1 for row in range(9)]


def test_what_was_found_out_is_remembered_as_long_as_it_holds():
    table = a_table(numa_host(host="a"), numa_host(host="b"))
    spec = asked(a_guest_cell(0), a_guest_cell(1))
    assert RULE.mask(table, spec).tolist() == [True, True]
    table.set(0, "numa_topology", a_topology(a_cell(0), a_cell(1, cpu_usage=31)))
    assert RULE.mask(table, spec).tolist() == [False, True]
    assert RULE.mask(table, asked(a_guest_cell())).tolist() == [True, True]
    table.set(1, "numa_topology", None)
    assert RULE.mask(table, spec).tolist() == [False, False]


def test_several_instances_fill_one_host_after_the_other():
    # Two pinned guests of three CPUs fit a host of 8, and each is fitted from the same request.
    table = a_table(*(numa_host(a_cell(), host=f"h{number}") for number in range(3)))
    spec = asked(a_pinned_cell(cpus=3))
    before = deepcopy(spec)
    uuids = [f"u{number}" for number in range(6)]
    decision = decide(table, Request(spec, uuids), Plan(filters=[RULE]))
    assert sorted(each.chosen.host for each in decision.placements) == [
        "h0",
        "h0",
        "h1",
        "h1",
        "h2",
        "h2",
    ]
    assert spec == before
    for each in decision.placements:
        assert each.chosen.limits["numa_topology"] == NUMATopologyLimits(4.0, 1.0)
    again = decide(table, Request(spec, ["u9"]), Plan(filters=[RULE]))
    assert again.shortage is not None


@given(st.lists(rooms(most=3), min_size=1, max_size=4), guests(), st.booleans())
def test_the_mask_is_the_rule_for_each_host(drawn, guest, threads):
    spec = a_request(
        numa_topology=guest.topology,
        network_metadata=guest.networks,
        pci_requests=all_of(*guest.devices),
        extra_specs=DEDICATED | REQUIRE if threads else {},
    )
    each = [
        a_host(
            f"h{number}",
            numa_topology=room.topology,
            pci_stats=room.pools,
            cpu_allocation_ratio=room.ratios.cpu,
            ram_allocation_ratio=room.ratios.ram,
        )
        for number, room in enumerate(drawn)
    ]
    table = a_table(*each)
    assert RULE.mask(table, spec).tolist() == [RULE.host_passes(host, spec) for host in each]
    assert not table.warnings
    for row, host in enumerate(each):
        assert dict(HostState.of(table, row).limits) == dict(host.limits)
        passes = "numa_topology" in host.limits
        assert passes or RULE.reason(host, spec) != "does not pass"

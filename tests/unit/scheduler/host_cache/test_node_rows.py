# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache.node_rows."""

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from inventory.objects.node_json import numa_topology_to_json, pci_pools_to_json
from inventory.objects.numa import NUMATopology
from scheduler.host_cache.node_rows import epoch_seconds, write_nodes
from scheduler.hosts.host_state import HostState
from scheduler.hosts.table import HostTable
from tests.databases import a_node
from tests.devices import a_pool, host_cells, wanted

MOMENT = datetime(2026, 8, 1, 12, 0, 0)
TOPOLOGY = NUMATopology(host_cells(0, 1))


def a_row(**changes):
    """Return a row of compute_nodes as the database gives it."""
    ours = {
        "id": 7,
        "generation": 3,
        "created_at": MOMENT,
        "updated_at": MOMENT,
        "cpu_allocation_ratio": 4.0,
        "numa_topology": None,
        "pci_stats": None,
        "metrics": None,
        "disk_mb_used": None,
        "free_disk_mb": None,
        "claims": 0,
    }
    return SimpleNamespace(**a_node() | ours | changes)


def write_node(hosts, row, node, consumed=0.0):
    """Write a row; return whether it was not outdated."""
    return write_nodes(hosts, {row: node}, {node.id: consumed}) == [node]


def written(**changes):
    """Return the host that a row makes."""
    state = HostState("h1", "n1")
    assert write_node(state.table, state.row, a_row(**changes))
    return state


def test_every_attribute_has_its_column_and_its_unit():
    host = written(
        memory_mb=65536,
        free_ram_mb=-100,
        local_gb=1000,
        local_gb_used=30,
        free_disk_gb=970,
        vcpus=16,
        vcpus_used=5,
        stats=json.dumps({"num_instances": "4", "io_workload": 2, "failed_builds": "1"}),
        hypervisor_version=8002000,
        cpu_info='{"vendor": "Intel"}',
    )
    assert (host.node_id, host.generation) == (7, 3)
    assert (host.total_usable_ram_mb, host.free_ram_mb) == (65536, -100)
    assert host.total_usable_disk_gb == 1000
    assert (host.free_disk_mb, host.disk_mb_used) == (970 * 1024, 30 * 1024)
    assert (host.vcpus_total, host.vcpus_used) == (16, 5)
    assert (host.num_instances, host.num_io_ops, host.failed_builds) == (4, 2, 1)
    assert (host.cpu_allocation_ratio, host.ram_allocation_ratio) == (4.0, None)
    assert host.supported_instances == [["x86_64", "kvm", "hvm"]]
    assert (host.hypervisor_type, host.hypervisor_version) == ("QEMU", 8002000)
    # Texts stay texts: few requests ask for what is in them.
    assert host.cpu_info == '{"vendor": "Intel"}'
    assert host.updated == MOMENT.replace(tzinfo=UTC).timestamp()
    assert host.metrics == []


def test_an_absurd_ratio_is_cut_so_that_no_limit_is_infinite():
    assert written(cpu_allocation_ratio=1.7e308).cpu_allocation_ratio == 1e100


def test_no_ratio_and_that_of_newton_for_none_are_alike():
    for ratio in (None, 0.0):
        assert written(cpu_allocation_ratio=ratio).cpu_allocation_ratio is None


def test_shares_become_percentages():
    reported = [
        {"name": "cpu.percent", "value": 0.25},
        {"name": "cpu.frequency", "value": 2000},
        {"name": "cpu.idle.percent", "value": "nonsense"},
        {"name": "cpu.user.percent"},
        {"name": "cpu.kernel.percent", "value": 10**400},
        "nonsense",
    ]
    metrics = written(metrics=json.dumps(reported)).metrics
    assert metrics == [{"name": "cpu.percent", "value": 25.0}, *reported[1:]]


@pytest.mark.parametrize(
    ("free", "least", "free_mb"),
    [(16, 7, 7168), (16, None, 16384), (16, 20, 16384), (16, -3, -3072), (-2, 0, -2048)],
)
def test_the_smaller_figure_for_free_disk_counts(free, least, free_mb):
    assert written(free_disk_gb=free, disk_available_least=least).free_disk_mb == free_mb


def test_a_node_that_never_reported_its_disk_is_not_finished():
    state = HostState("h1", "n1")
    assert not write_node(state.table, state.row, a_row(free_disk_gb=None))
    assert (state.total_usable_ram_mb, state.stats) == (0, None)
    # What does not change with use is there.
    assert (state.node_id, state.hypervisor_type) == (7, "QEMU")
    assert (state.pci_stats, state.numa_topology) == (None, None)
    assert (state.metrics, state.supported_instances, state.updated) == (None, None, None)


def test_exact_figures_count_where_there_are_any():
    host = written(disk_mb_used=1500, free_disk_mb=-7, free_disk_gb=16, local_gb_used=30)
    assert (host.disk_mb_used, host.free_disk_mb) == (1500, -7)
    assert written(free_disk_mb=0, free_disk_gb=16).free_disk_mb == 0
    assert written(disk_mb_used=0, local_gb_used=16).disk_mb_used == 0


def test_each_claim_is_an_instance_that_is_being_built():
    host = written(claims=3, stats=json.dumps({"num_instances": "4", "io_workload": 2}))
    assert (host.num_instances, host.num_io_ops) == (7, 5)
    assert written(claims=2, stats=None).num_instances == 2


@pytest.mark.parametrize(("later", "applied"), [(-1, False), (0, True), (1, True)])
def test_what_was_consumed_later_than_a_node_was_written_stays(later, applied):
    state = written(free_ram_mb=1000)
    row = a_row(
        free_ram_mb=2000,
        generation=4,
        updated_at=MOMENT + timedelta(seconds=later),
        pci_stats=pci_pools_to_json([a_pool(2)]),
        numa_topology=numa_topology_to_json(TOPOLOGY),
    )
    assert write_node(state.table, state.row, row, epoch_seconds(MOMENT)) == applied
    assert state.free_ram_mb == (2000 if applied else 1000)
    assert state.pci_stats.free() == (2 if applied else 0)
    assert state.numa_topology == (TOPOLOGY if applied else None)
    assert state.generation == 4


def test_a_row_counts_though_the_clock_has_gone_back():
    state = written(free_ram_mb=1000)
    row = a_row(free_ram_mb=2000, generation=4, updated_at=MOMENT - timedelta(seconds=1))
    assert write_node(state.table, state.row, row)
    assert state.free_ram_mb == 2000


@pytest.mark.parametrize(
    "text", ["", None, "nonsense", "[1]", "7", "null", '{"open": ', "[" * 100_000]
)
def test_statistics_that_cannot_be_read_are_none_at_all(text):
    host = written(stats=text)
    assert host.stats == {}
    assert host.num_instances == 0


@pytest.mark.parametrize("text", ["", None, "nonsense", "{}", "7"])
def test_supported_instances_that_cannot_be_read_are_none_at_all(text):
    assert written(supported_instances=text).supported_instances == []


def test_devices_and_cells_are_objects():
    pools = [a_pool(1), a_pool(3, 1, dev_type="type-VF")]
    host = written(
        pci_stats=pci_pools_to_json(pools), numa_topology=numa_topology_to_json(TOPOLOGY)
    )
    assert list(host.pci_stats) == pools
    assert host.numa_topology == TOPOLOGY


@pytest.mark.parametrize("text", [None, "", "null", "[]", '{"nova_object.name": "X"}', "{", "7"])
def test_a_host_that_reports_no_devices_has_none(text):
    pools = written(pci_stats=text).pci_stats
    assert pools is not None
    assert pools.free() == 0


OF_JUNO = '{"cells": [{"id": 0, "cpus": "0-3", "mem": {"total": 1024, "used": 0}, "cpu_usage": 0}]}'


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        (None, False),
        ("", False),
        ("null", False),
        ("{", True),
        ("[]", True),
        (OF_JUNO, True),
        ("[" * 100_000, True),
    ],
)
def test_a_host_whose_cells_are_unknown_has_none(text, warned, caplog):
    assert written(numa_topology=text).numa_topology is None
    assert ("Column numa_topology" in caplog.text) == warned


def test_a_row_with_an_unreadable_text_is_written_nevertheless():
    host = written(pci_stats="{", numa_topology="{", stats="{", free_ram_mb=77)
    assert (host.free_ram_mb, host.stats) == (77, {})


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("3", 3),
        (3, 3),
        (3.9, 3),
        (None, 0),
        ("", 0),
        ("x", 0),
        ([1], 0),
        (float("inf"), 0),
        (float("nan"), 0),
        (10**30, 0),
        (2**63 - 1, 0),
    ],
)
def test_a_statistic_that_is_no_number_is_0(value, count, caplog):
    # In Nova it fails the whole refresh.
    stats = {"num_instances": value, "io_workload": value, "failed_builds": value}
    host = written(stats=json.dumps(stats))
    assert (host.num_instances, host.num_io_ops, host.failed_builds) == (count, count, count)
    warned = "Statistic io_workload of host h1 is " in caplog.text
    assert warned == (count == 0 and bool(value))


def test_equal_texts_are_parsed_once_and_share_what_they_mean():
    table = HostTable()
    for host in ("h1", "h2", "h3"):
        row = table.add(host, host)
        stats = '{"gpu": "2"}' if host != "h3" else '{"gpu":  "2"}'
        write_node(table, row, a_row(stats=stats))
    first, second, third = (table.get(row, "stats") for row in range(3))
    assert first is second
    assert first is not third
    assert first == third


def test_equal_reports_of_devices_share_their_pools():
    table = HostTable()
    texts = [pci_pools_to_json([a_pool(count)]) for count in (2, 2, 3)]
    for row, text in enumerate(texts):
        write_node(table, table.add(f"h{row}", "n"), a_row(pci_stats=text))
    first, second, third = (table.get(row, "pci_stats") for row in range(3))
    assert first is second
    assert third.free() == 3
    # What was taken here is undone by the next report, though it be the same as before.
    table.set(0, "pci_stats", first.consume([wanted(1)]))
    assert table.get(0, "pci_stats").free() == 1
    write_node(table, 0, a_row(pci_stats=texts[0]))
    assert table.get(0, "pci_stats") is second


def test_moments_without_a_zone_are_utc():
    assert epoch_seconds(datetime(1970, 1, 1, 0, 0, 5)) == 5.0
    assert epoch_seconds(None) == 0.0


def test_a_row_that_was_only_created_counts_from_then():
    assert written(updated_at=None).updated == epoch_seconds(MOMENT)

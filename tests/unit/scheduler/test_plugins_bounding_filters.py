# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.plugins: claims have a bound, whatever filters are named."""

import logging
from pathlib import Path

import pytest
from oslo_config import cfg

from conf import loading
from scheduler.plugins import list_option, load_driver, report_bounds
from scheduler.service import build_destinations
from scheduler.wire.errors import NoValidHost
from tests.databases import a_conf, a_node, a_uuid, save, serve
from tests.unit.scheduler.select_destinations.test_loop_requests import ask

# What Nova 34 enables by default.
OF_NOVA = [
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
]
OF_NEWTON = ["RetryFilter", "AvailabilityZoneFilter", "RamFilter", "DiskFilter"]
ALL = ["CoreFilter", "RamFilter", "DiskFilter"]


def a_conf_with(*enabled, claims=(), **filter_scheduler):
    conf = a_conf()
    if enabled:
        conf.set_override("enabled_filters", list(enabled), "filter_scheduler")
    for group, options in (("filter_scheduler", filter_scheduler), ("claims", dict(claims))):
        for name, value in options.items():
            conf.set_override(name, value, group)
    return conf


def in_use(conf):
    return [each.name for each in load_driver(conf).plan.filters]


@pytest.mark.parametrize("size", [{"vcpus": 4}, {"memory_mb": 2048}, {"root_gb": 25}])
def test_claims_keep_to_totals_and_ratios_whatever_filters_are_named(database, size):
    """Four of these fit on a host, of all else there is enough."""
    size = {"vcpus": 1, "memory_mb": 512, "root_gb": 1} | size
    host = {"vcpus": 16, "memory_mb": 8192, "local_gb": 100, "free_disk_gb": 100}
    ratios = dict.fromkeys(
        [f"initial_{each}_allocation_ratio" for each in ("cpu", "ram", "disk")], 1.0
    )
    save(database, a_node("h1", free_ram_mb=8192, memory_mb_used=0, **host, **ratios))
    serve(database, "h1")
    schedulers = [build_destinations(a_conf_with(*OF_NOVA), database) for _ in range(2)]
    placed = refused = 0
    for number in range(9):
        one = a_uuid(f"vm{number}")
        try:
            ask(schedulers[number % 2], one, request_id=one, **size)
            placed += 1
        except NoValidHost:
            refused += 1
    assert (placed, refused) == (4, 5)


@pytest.mark.parametrize(
    ("enabled", "expected"),
    [
        (OF_NOVA, [*ALL, *OF_NOVA]),
        (OF_NEWTON, ["CoreFilter", *OF_NEWTON]),
        (["AggregateRamFilter", "ExactCoreFilter", "scheduler.filters.disk.DiskFilter"], None),
    ],
)
def test_a_filter_is_implied_where_none_bounds_its_resource(enabled, expected):
    names = [each.rpartition(".")[2] for each in enabled]
    assert in_use(a_conf_with(*enabled)) == (expected or names)


def test_the_lists_that_are_the_default_imply_nothing():
    for conf in (a_conf_with(), a_conf_with(use_baremetal_filters=True)):
        listed = conf.filter_scheduler[list_option(conf)]
        assert in_use(conf) == listed


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"enabled": False}, []),
        ({"bounded_resources": []}, []),
        ({"bounded_resources": ["disk_gb", "vcpu"]}, ["CoreFilter", "DiskFilter"]),
    ],
)
def test_who_wants_no_bound_has_none(claims, expected):
    assert in_use(a_conf_with(*OF_NOVA, claims=claims)) == [*expected, *OF_NOVA]


def test_bare_metal_has_its_own_list():
    conf = a_conf_with(use_baremetal_filters=True, baremetal_enabled_filters=["ExactRamFilter"])
    assert in_use(conf) == ["CoreFilter", "DiskFilter", "ExactRamFilter"]


def logged(conf, caplog):
    caplog.clear()
    with caplog.at_level(logging.INFO):
        report_bounds(conf, load_driver(conf).plan.filters)
    return [(each.levelname, each.getMessage()) for each in caplog.records]


def test_filters_that_are_implied_are_logged(caplog):
    assert logged(a_conf_with(), caplog) == []
    assert logged(a_conf_with(*(f"Aggregate{each}" for each in ALL)), caplog) == []
    assert logged(a_conf_with(*OF_NEWTON), caplog) == [
        (
            "INFO",
            "Filters in use besides [filter_scheduler] enabled_filters: CoreFilter, so that claims"
            " keep to the total times the allocation ratio; [claims] bounded_resources turns this"
            " off",
        )
    ]


@pytest.mark.parametrize(
    "claims", [{"enabled": False}, {"bounded_resources": ["memory_mb"]}, {"bounded_resources": []}]
)
def test_the_operator_is_warned_of_what_nothing_bounds(caplog, claims):
    *_, (level, text) = logged(a_conf_with("RamFilter", claims=claims), caplog)
    assert level == "WARNING"
    assert text.startswith("The filters in use lack CoreFilter, DiskFilter: nothing keeps hosts")


def test_a_driver_that_does_not_filter_gets_no_filters(caplog):
    conf = a_conf_with(*OF_NOVA)
    conf.set_override("driver", "chance_scheduler", "scheduler")
    assert in_use(conf) == ["ComputeFilter"]
    ((level, text),) = logged(conf, caplog)
    assert level == "WARNING"
    assert "CoreFilter, RamFilter, DiskFilter" in text


def test_a_resource_that_is_none_stops_the_start(tmp_path: Path):
    file = tmp_path / "berthmaster.conf"
    file.write_text("[claims]\nbounded_resources = vcpu,memory\n")
    conf = cfg.ConfigOpts()
    loading.read(conf, "berthmaster", [f"--config-file={file}"], "")
    with pytest.raises(
        loading.ConfigError, match=r"\[claims\] bounded_resources = 'vcpu,memory' in"
    ):
        loading.check(conf)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of all options with configuration files that were written for Nova."""

import subprocess
import sys
from pathlib import Path

import pytest

from compute_agent import cpu_sets
from conf import compute_agent, libvirt
from conf.service import liveness_limit
from scheduler import plugins
from scheduler.drivers.chance import ChanceScheduler
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.drivers.multi import MultiScheduler
from scheduler.drivers.simple import SimpleScheduler

FILES = Path(__file__).parents[2] / "fixtures" / "nova_conf"
FOLSOM, NEWTON, NEWEST = (FILES / f"{name}.conf" for name in ("folsom", "newton", "2026.2"))
# Reads everything twice, as a daemon does when it reads its configuration again.
LOAD = """
import sys
from oslo_config import cfg
from conf import loading
from scheduler import plugins
conf = cfg.ConfigOpts()
loading.load(conf, "berthmaster-test", ["--config-file", sys.argv[1]], "1.0")
for _ in range(2):
    loading.check(conf)
    plugins.load_driver(conf)
"""
# Options that had a flat name, which was another one or the same.
FLAT = {
    "scheduler_driver": "driver",
    "scheduler_driver_task_period": "driver_task_period",
    "scheduler_max_attempts": "max_attempts",
    "scheduler_available_filters": "available_filters",
    "scheduler_default_filters": "enabled_filters",
    "scheduler_weight_classes": "weight_classes",
    "scheduler_host_subset_size": "host_subset_size",
    "scheduler_tracks_instance_changes": "track_instance_changes",
    "scheduler_use_baremetal_filters": "use_baremetal_filters",
    **{
        name: name
        for name in (
            "ram_weight_multiplier",
            "disk_weight_multiplier",
            "io_ops_weight_multiplier",
            "soft_affinity_weight_multiplier",
            "soft_anti_affinity_weight_multiplier",
            "max_io_ops_per_host",
            "max_instances_per_host",
            "isolated_images",
            "isolated_hosts",
            "restrict_isolated_hosts_to_isolated_images",
            "aggregate_image_properties_isolation_namespace",
            "aggregate_image_properties_isolation_separator",
        )
    },
}
FLAT_IN_FOLSOM = {
    "scheduler_driver": "driver",
    "scheduler_available_filters": "available_filters",
    "scheduler_default_filters": "enabled_filters",
    **{
        name: name
        for name in (
            "compute_scheduler_driver",
            "volume_scheduler_driver",
            "default_scheduler_driver",
            "least_cost_functions",
            "compute_fill_first_cost_fn_weight",
            "noop_cost_fn_weight",
            "max_cores",
            "skip_isolated_core_check",
            "default_schedule_zone",
            "isolated_images",
            "isolated_hosts",
        )
    },
}
ISOLATED_IMAGES = ["00000000-0000-0000-3333-000000000001"]
ISOLATED_HOSTS = ["compute-8", "compute-9"]


@pytest.mark.parametrize("path", [NEWTON, NEWEST], ids=lambda path: path.name)
def test_what_both_releases_name_alike(loaded, path):
    conf = loaded(path)
    assert (conf.host, conf.my_ip, conf.state_path) == ("compute-7", "192.0.2.7", "/var/lib/nova")
    assert conf.scheduler.max_attempts == 5
    chosen = conf.filter_scheduler
    assert chosen.host_subset_size == 3
    assert chosen.ram_weight_multiplier == 2.0
    assert chosen.disk_weight_multiplier == 0.5
    assert chosen.io_ops_weight_multiplier == -2.0
    assert chosen.available_filters == ["nova.scheduler.filters.all_filters"]
    assert chosen.weight_classes == ["nova.scheduler.weights.all_weighers"]
    assert conf.default_availability_zone == "home"
    assert conf.compute_driver == "libvirt.LibvirtDriver"
    assert (conf.reserved_host_memory_mb, conf.reserved_host_disk_mb) == (2048, 10240)
    assert conf.instances_path == "/var/lib/nova/instances"
    assert conf.database.connection == "sqlite:////var/lib/nova/nova.sqlite"


def test_newton_s_own(loaded):
    conf = loaded(NEWTON)
    assert conf.scheduler.driver == "filter_scheduler"
    assert conf.filter_scheduler.enabled_filters[:3] == [
        "RetryFilter",
        "AvailabilityZoneFilter",
        "RamFilter",
    ]
    chosen = conf.filter_scheduler
    assert (chosen.isolated_images, chosen.isolated_hosts) == (ISOLATED_IMAGES, ISOLATED_HOSTS)
    assert chosen.restrict_isolated_hosts_to_isolated_images is False
    assert chosen.aggregate_image_properties_isolation_namespace == "image"
    assert chosen.aggregate_image_properties_isolation_separator == ":"
    assert chosen.soft_affinity_weight_multiplier == 1.5
    assert chosen.soft_anti_affinity_weight_multiplier == 2.5
    assert (conf.cpu_allocation_ratio, conf.ram_allocation_ratio) == (0.0, 1.1)
    assert compute_agent.audit_interval(conf) == 60
    assert liveness_limit(conf) == 120
    assert libvirt.uri(conf) == "qemu:///system"


def test_2026_2_s_own(loaded):
    conf = loaded(NEWEST)
    assert conf.scheduler.workers == 4
    chosen = conf.filter_scheduler
    assert chosen.shuffle_best_same_weighed_hosts is True
    assert chosen.image_properties_default_architecture == "x86_64"
    assert chosen.cpu_weight_multiplier == 0.25
    assert chosen.num_instances_weight_multiplier == -1.5
    assert (conf.compute.cpu_shared_set, conf.compute.cpu_dedicated_set) == ("2-7,^4", "8-15")
    assert (conf.cpu_allocation_ratio, conf.ram_allocation_ratio) == (8.0, None)
    assert compute_agent.audit_interval(conf) == 120
    # service_down_time is not larger than report_interval.
    assert liveness_limit(conf) == 75
    assert conf.notifications.notification_format == "both"
    assert libvirt.uri(conf) == "qemu+tcp://192.0.2.7/system"


def test_the_cpus_and_pages_for_guests(loaded):
    newest, newton = loaded(NEWEST), loaded(NEWTON)
    sets = cpu_sets.load(newest)
    assert (sets.shared, sets.dedicated) == ({2, 3, 5, 6, 7}, set(range(8, 16)))
    assert cpu_sets.reserved_pages(newest) == {(0, 2048): 64, (1, 1048576): 1}
    all_of_them = cpu_sets.HostCpus(frozenset(range(16)), frozenset(range(16)))
    assert cpu_sets.load(newton).floating(all_of_them) == set(range(2, 16))
    assert cpu_sets.reserved_pages(newton) == {}


def test_the_request_filters_of_2026_2(loaded):
    settings = [vars(each) for each in plugins.load_driver(loaded(NEWEST)).plan.request_filters]
    assert settings == [
        {"isolates": True},
        {"enabled": True, "required": True},
        {"enabled": False, "default_zone": "home"},
        {"enabled": True},
    ]
    defaults = [vars(each) for each in plugins.load_driver(loaded(NEWTON)).plan.request_filters]
    assert defaults == [
        {"isolates": False},
        {"enabled": False, "required": False},
        {"enabled": False},
    ]


def test_folsom_s_drivers_and_cost_functions(loaded):
    conf = loaded(FOLSOM)
    driver = plugins.load_driver(conf)
    assert type(driver) is MultiScheduler
    assert type(driver.compute) is FilterScheduler
    assert type(driver.default) is ChanceScheduler
    simple = driver.volume
    assert type(simple) is SimpleScheduler
    assert (simple.max_cores, simple.skip_isolated_core_check) == (24, False)
    assert (simple.default_schedule_zone, simple.default_zone) == ("rack1", "nova")
    assert (simple.isolated_images, simple.isolated_hosts) == (ISOLATED_IMAGES, ISOLATED_HOSTS)
    assert [each.name for each in driver.plan.filters] == [
        *("CoreFilter", "DiskFilter"),
        *conf.filter_scheduler.enabled_filters,
    ]
    assert {each.name: each.multiplier for each in driver.plan.weighers} == {
        "compute_fill_first_cost_fn": 1.0,
        "noop_cost_fn": 0.5,
    }


@pytest.mark.parametrize(
    ("path", "filters", "implied"),
    [(NEWTON, 9, ["CoreFilter"]), (NEWEST, 5, ["CoreFilter", "RamFilter", "DiskFilter"])],
)
def test_the_plug_ins_they_name_are_ours(loaded, path, filters, implied):
    conf = loaded(path)
    plan = plugins.load_driver(conf).plan
    enabled = conf.filter_scheduler.enabled_filters
    assert [each.name for each in plan.filters] == [*implied, *enabled]
    assert len(enabled) == filters
    multipliers = {each.name: each.multiplier for each in plan.weighers}
    assert multipliers["RAMWeigher"] == 2.0
    assert multipliers["DiskWeigher"] == 0.5
    assert multipliers["IoOpsWeigher"] == -2.0
    assert plan.host_subset_size == 3


def what_is_logged(path):
    """Return what a process of its own logs; oslo.log warns once in a process."""
    command = [sys.executable, "-c", LOAD, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize(("path", "flat"), [(NEWTON, FLAT), (FOLSOM, FLAT_IN_FOLSOM)])
def test_each_old_name_is_reported_once(path, flat):
    lines = [line for line in what_is_logged(path) if "Deprecated: " in line]
    for old, new in flat.items():
        about = [line for line in lines if f'Option "{old}" from group "DEFAULT"' in line]
        assert len(about) == 1, old
        assert f'Use option "{new}"' in about[0]
    assert len(lines) == len(flat)


def test_nothing_of_2026_2_is_called_old():
    assert [line for line in what_is_logged(NEWEST) if "Deprecated: " in line] == []


def test_the_new_name_wins_over_the_old_one(loaded):
    conf = loaded("[DEFAULT]\nscheduler_max_attempts = 5\n[scheduler]\nmax_attempts = 7\n")
    assert conf.scheduler.max_attempts == 7

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of all options with configuration files that were written for Nova."""

import subprocess
import sys
from pathlib import Path

import pytest

from conf import compute_agent, libvirt
from conf.service import liveness_limit
from scheduler import plugins

FILES = Path(__file__).parents[2] / "fixtures" / "nova_conf"
NEWTON, NEWEST = FILES / "newton.conf", FILES / "2026.2.conf"
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
FLAT = {
    "scheduler_driver": "driver",
    "scheduler_max_attempts": "max_attempts",
    "scheduler_available_filters": "available_filters",
    "scheduler_default_filters": "enabled_filters",
    "scheduler_weight_classes": "weight_classes",
    "scheduler_host_subset_size": "host_subset_size",
    "ram_weight_multiplier": "ram_weight_multiplier",
    "disk_weight_multiplier": "disk_weight_multiplier",
    "io_ops_weight_multiplier": "io_ops_weight_multiplier",
}


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
    assert conf.reserved_host_cpus == 2
    assert (conf.cpu_allocation_ratio, conf.ram_allocation_ratio) == (8.0, None)
    assert compute_agent.audit_interval(conf) == 120
    # service_down_time is not larger than report_interval.
    assert liveness_limit(conf) == 75
    assert conf.notifications.notification_format == "both"
    assert libvirt.uri(conf) == "qemu+tcp://192.0.2.7/system"


@pytest.mark.parametrize(("path", "filters"), [(NEWTON, 9), (NEWEST, 5)])
def test_the_plug_ins_they_name_are_ours(loaded, path, filters):
    conf = loaded(path)
    plan = plugins.load_driver(conf).plan
    assert [each.name for each in plan.filters] == conf.filter_scheduler.enabled_filters
    assert len(plan.filters) == filters
    multipliers = {each.name: each.multiplier for each in plan.weighers}
    assert multipliers["RAMWeigher"] == 2.0
    assert multipliers["DiskWeigher"] == 0.5
    assert multipliers["IoOpsWeigher"] == -2.0
    assert plan.host_subset_size == 3


def what_is_logged(path):
    """Return what a process of its own logs; oslo.log remembers what it has told a process."""
    command = [sys.executable, "-c", LOAD, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return (done.stdout + done.stderr).splitlines()


def test_each_old_name_is_reported_once():
    lines = [line for line in what_is_logged(NEWTON) if "Deprecated: " in line]
    for old, new in FLAT.items():
        about = [line for line in lines if f'Option "{old}" from group "DEFAULT"' in line]
        assert len(about) == 1, old
        assert f'Use option "{new}"' in about[0]
    assert len(lines) == len(FLAT)


def test_nothing_of_2026_2_is_called_old():
    assert [line for line in what_is_logged(NEWEST) if "Deprecated: " in line] == []


def test_the_new_name_wins_over_the_old_one(loaded):
    conf = loaded("[DEFAULT]\nscheduler_max_attempts = 5\n[scheduler]\nmax_attempts = 7\n")
    assert conf.scheduler.max_attempts == 7

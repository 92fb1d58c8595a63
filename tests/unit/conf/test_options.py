# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the modules of conf that hold one group of options each."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg

from conf import compute_agent, flavor_mix, libvirt, opts
from conf.service import liveness_limit

SECONDS = st.integers(1, 10**6)


@pytest.fixture
def conf():
    return defaults()


def defaults():
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    return conf


@pytest.mark.parametrize(
    ("report_interval", "service_down_time", "limit"),
    [(10, 60, 60), (30, 30, 75), (61, 60, 152), (59, 60, 60), (1, 1, 2), (60, 61, 61)],
)
def test_liveness_limit_worked_cases(conf, report_interval, service_down_time, limit):
    conf.set_override("report_interval", report_interval)
    conf.set_override("service_down_time", service_down_time)
    assert liveness_limit(conf) == limit


@given(SECONDS, SECONDS)
def test_a_service_that_beats_in_time_is_alive(report_interval, service_down_time):
    conf = defaults()
    conf.set_override("report_interval", report_interval)
    conf.set_override("service_down_time", service_down_time)
    assert liveness_limit(conf) > report_interval
    assert liveness_limit(conf) >= service_down_time or service_down_time <= report_interval


@pytest.mark.parametrize(("given", "seconds"), [(0, 60), (1, 1), (300, 300), (-1, None)])
def test_audit_interval(conf, given, seconds):
    conf.set_override("update_resources_interval", given)
    assert compute_agent.audit_interval(conf) == seconds


@pytest.mark.parametrize(
    ("uri", "virt_type", "expected"),
    [
        ("", "kvm", "qemu:///system"),
        ("", "qemu", "qemu:///system"),
        ("", "lxc", "lxc:///"),
        ("test:///default", "lxc", "test:///default"),
    ],
)
def test_libvirt_uri(conf, uri, virt_type, expected):
    conf.set_override("connection_uri", uri, group="libvirt")
    conf.set_override("virt_type", virt_type, group="libvirt")
    assert libvirt.uri(conf) == expected


def test_a_service_is_called_as_its_machine_unless_it_is_told_otherwise(conf):
    assert conf.host == socket.gethostname()
    assert conf.service_down_time > conf.report_interval


def test_every_option_is_listed_with_help_and_registered(conf):
    listed = opts.list_opts()
    assert {group for group, _ in listed} >= {"DEFAULT", "scheduler", "filter_scheduler", "fake"}
    for group, options in listed:
        for option in options:
            assert option.help
            assert option.dest in (conf if group == "DEFAULT" else conf[group])


def test_the_ratios_of_2026_2(conf):
    assert conf.initial_cpu_allocation_ratio == 4.0
    assert conf.initial_ram_allocation_ratio == 1.0
    assert conf.initial_disk_allocation_ratio == 1.0
    assert conf.cpu_allocation_ratio is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4:8192", (4, 8192, 0, 1.0)),
        (" 4:8192:40 ", (4, 8192, 40 * 1024, 1.0)),
        ("1:2048=5", (1, 2048, 0, 5.0)),
        ("0:512:10=0.25", (0, 512, 10 * 1024, 0.25)),
    ],
)
def test_a_usual_flavor(text, expected):
    assert flavor_mix.weighted_size(text) == expected


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("m1.small", "is not VCPUS:MEMORY_MB"),
        ("4", "is not VCPUS:MEMORY_MB"),
        ("4:8192:-1", "is not VCPUS:MEMORY_MB"),
        ("\u0664:8192", "is not VCPUS:MEMORY_MB"),
        ("4:8192=1e3", "is not VCPUS:MEMORY_MB"),
        ("0:0:0", "needs no resources of a host"),
        ("4:8192=0", "its weight is 0"),
        ("4:99999999999", "a number above"),
        ("4:8192=99999999999", "a number above"),
    ],
)
def test_what_is_no_flavor_is_refused(text, cause):
    with pytest.raises(ValueError, match=cause):
        flavor_mix.weighted_size(text)


def test_usual_flavors_are_a_list(conf):
    conf.set_override("flavors", ["1:2048:10=5", "4:8192"], "flavor_mix")
    assert conf.flavor_mix.flavors == [(1, 2048, 10240, 5.0), (4, 8192, 0, 1.0)]

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of a filter for reserved aggregates."""

import pytest

from scheduler.filters.aggregate_image_properties_isolation import AggregateImagePropertiesIsolation
from tests.builders import a_request, an_image
from tests.hosts import a_host, a_table, an_aggregate, in_aggregates

RULE = AggregateImagePropertiesIsolation()


def verdict(metadata, properties, rule=RULE):
    """Return None when a host of an aggregate passes, else the reason."""
    host = a_host(aggregates=[an_aggregate(**metadata)])
    spec = a_request(image=an_image(**properties))
    return None if rule.host_passes(host, spec) else rule.reason(host, spec)


def refusal(name, value, admitted):
    return f"image property {name} is {value}, the aggregates of the host admit {admitted}"


@pytest.mark.parametrize(
    ("metadata", "properties", "reason"),
    [
        ({"os_type": "windows"}, {"os_type": "windows"}, None),
        ({"os_type": "windows"}, {"os_type": "linux"}, ("os_type", "'linux'", "'windows'")),
        ({"os_type": "windows"}, {}, None),
        # No property of the image, whether or not there is one of that name.
        ({"zzz": "1"}, {"os_type": "linux"}, None),
        ({"hw_cpu_cores": "2"}, {"hw_cpu_cores": 2}, None),
        ({"hw_cpu_cores": "2"}, {"hw_cpu_cores": 4}, ("hw_cpu_cores", "'4'", "'2'")),
        ({"hw_qemu_guest_agent": "True"}, {"hw_qemu_guest_agent": True}, None),
        ({"os_distro": "ubuntu, centos"}, {"os_distro": "centos"}, None),
        ({"os_distro": "ubuntu"}, {"os_distro": "Ubuntu"}, ("os_distro", "'Ubuntu'", "'ubuntu'")),
        # What is empty says nothing, as in Nova.
        ({"hw_cpu_cores": "2"}, {"hw_cpu_cores": 0}, None),
        ({"os_type": "windows"}, {"os_type": ""}, None),
        ({"traits_required": "x"}, {"traits_required": []}, None),
        ({"os_type": ""}, {"os_type": "linux"}, ("os_type", "'linux'", "''")),
    ],
)
def test_worked_cases(metadata, properties, reason):
    assert verdict(metadata, properties) == (reason and refusal(*reason))


@pytest.mark.parametrize("text", ["true", "TRUE", "false, true"])
def test_unlike_nova_a_flag_is_compared_in_any_case(text):
    # Nova compares its text with a capital, 'True', and so refuses 'true'.
    assert verdict({"hw_qemu_guest_agent": text}, {"hw_qemu_guest_agent": True}) is None


@pytest.mark.parametrize("text", ["True", "true"])
def test_unlike_nova_a_flag_that_is_false_contradicts_true(text):
    reason = verdict({"hw_qemu_guest_agent": text}, {"hw_qemu_guest_agent": False})
    assert reason == refusal("hw_qemu_guest_agent", "'False'", f"'{text}'")
    assert verdict({"hw_qemu_guest_agent": "false"}, {"hw_qemu_guest_agent": False}) is None


def test_values_of_all_aggregates_are_admitted():
    host = a_host(aggregates=in_aggregates("os_distro", ["ubuntu", "centos"]))
    assert RULE.host_passes(host, a_request(image=an_image(os_distro="centos")))
    spec = a_request(image=an_image(os_distro="debian"))
    assert not RULE.host_passes(host, spec)
    assert RULE.reason(host, spec) == refusal("os_distro", "'debian'", "'centos', 'ubuntu'")


def test_all_properties_must_be_admitted_and_those_that_are_not_are_named():
    metadata = {"os_type": "windows", "os_distro": "ubuntu", "hw_disk_bus": "virtio"}
    properties = {"os_type": "linux", "os_distro": "debian", "hw_disk_bus": "virtio"}
    assert verdict(metadata, properties) == (
        f"{refusal('os_distro', repr('debian'), repr('ubuntu'))}; "
        f"{refusal('os_type', repr('linux'), repr('windows'))}"
    )


@pytest.mark.parametrize("image", [None, an_image()])
def test_an_image_without_properties_may_go_anywhere(image):
    spec = a_request(image=image)
    assert not RULE.applies(spec)
    assert RULE.host_passes(a_host(aggregates=[an_aggregate(os_type="windows")]), spec)


@pytest.mark.parametrize("aggregates", [None, [], [an_aggregate()]])
def test_a_host_of_no_such_aggregate_takes_any_image(aggregates):
    assert RULE.host_passes(a_host(aggregates=aggregates), a_request(image=an_image(os_type="x")))


@pytest.mark.parametrize(
    ("separator", "metadata", "passes"),
    [
        (".", {"ours.os_type": "windows"}, False),
        (".", {"ours.os_type": "linux"}, True),
        (".", {"os_type": "windows"}, True),
        (".", {"ours:os_type": "windows"}, True),
        (":", {"ours:os_type": "windows"}, False),
        (":", {"ours.os_type": "windows"}, True),
        ("", {"oursos_type": "windows"}, False),
        (None, {"oursos_type": "windows"}, False),
    ],
)
def test_in_a_namespace_the_rest_of_the_key_names_the_property(separator, metadata, passes):
    # Nova looks for a property of the whole key, of which there is none.
    rule = AggregateImagePropertiesIsolation(namespace="ours", separator=separator)
    found = verdict(metadata, {"os_type": "linux"}, rule)
    assert found == (None if passes else refusal("os_type", "'linux'", "'windows'"))


def test_a_namespace_that_is_part_of_the_names_of_properties_works_as_in_nova():
    rule = AggregateImagePropertiesIsolation(namespace="hw", separator="_")
    properties = {"hw_disk_bus": "scsi", "os_type": "linux"}
    reason = verdict({"hw_disk_bus": "virtio", "os_type": "windows"}, properties, rule)
    assert reason == refusal("hw_disk_bus", "'scsi'", "'virtio'")


def test_a_mask_is_asked_anew_for_other_images_and_settings():
    hosts = a_table(
        a_host("h1", aggregates=[an_aggregate(os_type="linux")]),
        a_host("h2", aggregates=[an_aggregate(os_type="windows")]),
        a_host("h3"),
    )
    linux, windows = (a_request(image=an_image(os_type=each)) for each in ("linux", "windows"))
    assert RULE.mask(hosts, linux).tolist() == [True, False, True]
    assert RULE.mask(hosts, windows).tolist() == [False, True, True]
    elsewhere = AggregateImagePropertiesIsolation(namespace="ours")
    assert elsewhere.mask(hosts, linux).tolist() == [True, True, True]


def test_when_it_is_asked():
    assert RULE.run_filter_once_per_request
    assert RULE.RUN_ON_REBUILD

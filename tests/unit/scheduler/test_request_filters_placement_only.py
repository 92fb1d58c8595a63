# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.request_filters."""

import pytest

from scheduler.objects.request_spec import RequestLevelParams
from scheduler.request_filters import PlacementOnly
from scheduler.service import build_destinations
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request, an_image
from tests.databases import a_conf, a_node, a_uuid, save, serve
from tests.hosts import a_host

RULE = PlacementOnly()
GOLD = {"trait:CUSTOM_GOLD": "required"}
SIZE = {"vcpus": 2, "memory_mb": 512, "root_gb": 10, "ephemeral_gb": 1, "swap": 100}
IS = "Only placement can judge what is requested: "


def refusal(rule=RULE, **changes):
    """Return why no host passes, which is the reason of each host as well; None if all do."""
    spec = a_request(**SIZE | changes)
    host, found = a_host(), rule.refusal(spec)
    assert rule.applies(spec) == (found is not None)
    assert rule.host_passes(host, spec) == (found is None)
    assert found is None or rule.reason(host, spec) == found
    return found


@pytest.mark.parametrize(
    ("specs", "named"),
    [
        (GOLD, "'trait:CUSTOM_GOLD' = 'required' of the flavor"),
        ({"trait:CUSTOM_GOLD": "forbidden"}, "'trait:CUSTOM_GOLD' = 'forbidden' of the flavor"),
        ({"trait1:CUSTOM_GOLD": "required"}, "'trait1:CUSTOM_GOLD' = 'required' of the flavor"),
        ({"trait_NIC:HW_NIC": "required"}, "'trait_NIC:HW_NIC' = 'required' of the flavor"),
        ({"resources:VGPU": "1"}, "'resources:VGPU' = '1' of the flavor"),
        ({"resources1:VCPU": "2"}, "'resources1:VCPU' = '2' of the flavor"),
        ({"resources_A:CUSTOM_X": "1"}, "'resources_A:CUSTOM_X' = '1' of the flavor"),
        ({"resources:CUSTOM_BAREMETAL": "1"}, "'resources:CUSTOM_BAREMETAL' = '1' of the flavor"),
        ({"resources:PCPU": "2"}, "'resources:PCPU' = '2' of the flavor"),
        ({"accel:device_profile": "fpga"}, "'accel:device_profile' = 'fpga' of the flavor"),
        # Not what the flavor has, so less or more would be taken than is counted.
        ({"resources:VCPU": "0"}, "'resources:VCPU' = '0' of the flavor"),
        ({"resources:MEMORY_MB": "511"}, "'resources:MEMORY_MB' = '511' of the flavor"),
        ({"resources:DISK_GB": "10"}, "'resources:DISK_GB' = '10' of the flavor"),
        ({"resources:DISK_GB": "some"}, "'resources:DISK_GB' = 'some' of the flavor"),
    ],
)
def test_what_only_placement_can_judge_is_named(specs, named):
    assert refusal(extra_specs=specs) == f"{IS}{named}."


@pytest.mark.parametrize(
    "specs",
    [
        {},
        {"resources:VCPU": "2", "resources:MEMORY_MB": "512", "resources:DISK_GB": "12"},
        {"resources:VCPU": " 2 "},
        # Nova makes requests to Placement of these, and they are judged here in other ways.
        {"hw:cpu_policy": "dedicated", "hw:mem_page_size": "large", "hw:tpm_version": "2.0"},
        {"group_policy": "isolate", "capabilities:trait": "x", "aggregate:trait:X": "required"},
        {"resources": "1", "trait": "required", "trait:": "required"},
    ],
)
def test_what_is_judged_here_is_no_matter(specs):
    assert refusal(extra_specs=specs) is None


def test_a_root_disk_that_is_a_volume_does_not_count():
    assert refusal(is_bfv=True, extra_specs={"resources:DISK_GB": "2"}) is None
    assert refusal(is_bfv=True, extra_specs={"resources:DISK_GB": "12"}) is not None


@pytest.mark.parametrize("listed", [["CUSTOM_GOLD", "HW_X"], "['CUSTOM_GOLD', 'HW_X']"])
def test_the_traits_of_an_image(listed):
    assert refusal(image=an_image(traits_required=listed)) == (
        f"{IS}'trait:CUSTOM_GOLD' = 'required' of the image,"
        " 'trait:HW_X' = 'required' of the image."
    )
    assert refusal(image=an_image()) is None


@pytest.mark.parametrize(
    ("params", "named"),
    [
        (
            {"root_required": {"COMPUTE_NODE", "B", "A"}},
            "'A' in root_required, 'B' in root_required",
        ),
        ({"root_forbidden": {"COMPUTE_STATUS_DISABLED", "A"}}, "'A' in root_forbidden"),
        ({"root_required": {"COMPUTE_NODE"}, "root_forbidden": {"COMPUTE_STATUS_DISABLED"}}, None),
        # Of groups of resources, which are refused by themselves.
        ({"same_subtree": [["_a", "_b"]]}, None),
    ],
)
def test_what_is_asked_of_the_host_itself(params, named):
    found = refusal(request_level_params=RequestLevelParams(**params))
    assert found == (named and f"{IS}{named}.")


def test_a_reason_stays_short():
    many = {f"trait:X\n{'Y' * number}": "required" for number in range(300)}
    found = refusal(extra_specs=many)
    assert found.endswith(" and 295 more.")
    assert len(found) < 500
    assert "\n" not in found


def test_what_aggregates_have_is_left_to_them_where_they_isolate():
    rule = PlacementOnly(isolates=True)
    assert refusal(rule, extra_specs=GOLD, image=an_image(traits_required=["HW_X"])) is None
    for specs in ({"trait1:X": "required"}, {"trait:X": "forbidden"}, {"resources:X": "1"}):
        assert refusal(rule, extra_specs=GOLD | specs).count(" of the flavor") == 1


@pytest.fixture
def cloud(database):
    save(database, a_node("h1"), a_node("h2"))
    serve(database, "h1", "h2")
    return database


def a_scheduler(database, driver):
    conf = a_conf()
    conf.set_override("driver", driver, "scheduler")
    return build_destinations(conf, database)


def asking(**changes):
    return SelectArguments(a_request(**changes), [a_uuid("vm")]), RequestContext(request_id="r")


DRIVERS = ["filter_scheduler", "chance_scheduler", "simple_scheduler", "multi"]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("forced", [{}, {"force_hosts": ["h1"]}])
def test_the_caller_gets_an_error_and_the_operator_a_log_line(cloud, driver, forced):
    scheduler = a_scheduler(cloud, driver)
    reason = f"{IS}'trait:CUSTOM_GOLD' = 'required' of the flavor."
    with pytest.raises(NoValidHost) as refused:
        scheduler.select(*asking(extra_specs=GOLD, **forced))
    assert refused.value.reason == reason
    decision, explained = scheduler.rehearse(*asking(extra_specs=GOLD))
    assert decision.shortage.reason == reason
    reasons = {(each.filter, each.reason) for v in explained.verdicts for each in v.refusals}
    assert ("PlacementOnly", reason) in reasons


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_instance_that_is_rebuilt_stays_where_it_is(cloud, driver):
    rebuild = {"scheduler_hints": {"_nova_check_type": ["rebuild"]}, "force_hosts": ["h1"]}
    answer = a_scheduler(cloud, driver).select(*asking(extra_specs=GOLD, **rebuild))
    assert [each[0].service_host for each in answer] == ["h1"]

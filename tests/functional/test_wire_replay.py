# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Every captured request of real Nova clients, sent byte for byte, is answered as it was then.

The hosts are such that a scheduler which weighs by free memory chooses as the stand-in behind the
captured replies did. What is meant to differ stands in the tables below; all else is compared.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest

from inventory import services
from inventory.engine import Database
from tests.fixtures.amqp_caller import AmqpCaller, Received
from tests.fixtures.captured_fleet import HOSTS, Replaying, replaying, with_cell
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.unit.scheduler.wire import wire_samples

FILTERS = (
    "ComputeFilter,AvailabilityZoneFilter,RetryFilter,ComputeCapabilitiesFilter,"
    "ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter"
)
# The real server left limits, and who holds room on alternates, to Placement.
AS_PLACEMENT_CLAIMS = {"claims": {"bounded_resources": "", "alternates": False}}
OPTIONS = {"filter_scheduler": {"enabled_filters": FILTERS}} | AS_PLACEMENT_CLAIMS
LIMITING = "RamFilter,CoreFilter,DiskFilter,NUMATopologyFilter"
LIMITED = wire_samples.names("call_*limits")
REFUSED = wire_samples.names("call_*novalidhost")
# It asks for the resources of a port, of which conductors only know where to find them when
# placement has allocated them. Both ask for a trait of their image.
EVERYTHING = "call_select_destinations_4.5_full_spec"
OF_OLD = "call_select_destinations_4.0_full_spec"
TRAIT = (
    "Only placement can judge what is requested: 'trait:HW_CPU_X86_AVX2' = 'required' of the image."
)
# The hosts of az1, for messages that ask for this zone or for the aggregate that it is.
ZONES = {
    OF_OLD: ["compute3"],
    "call_select_destinations_4.0_raw_build_request_spec": ["compute2"],
    EVERYTHING: ["compute3"],
    "call_select_destinations_4.5_unshelve": ["compute2"],
}

# What is meant to differ from the captured replies is here down to FAILED_THEN, and nothing else.
# The list of changed fields may be left out (reference 9.1).
LEFT_OUT = {"nova_object.changes"}
# By the class that has the fields.
MEANT = {
    # Claims are made here: there is none that a conductor could make in placement.
    "Selection": {"allocation_request": None, "allocation_request_version": None}
}
# By sample, in each Selection.
MEANT_HERE = {
    # The stand-in ignored zones, and put all hosts into the one of hosts that are in none.
    "call_select_destinations_4.5_full_spec": {"availability_zone": "az1"},
    "call_select_destinations_4.5_unshelve": {"availability_zone": "az1"},
}
# Well formed, and yet the real server failed (reference 16). Here they get the first host but that
# which has been tried, or has a member of the group.
FAILED_THEN = {
    "call_newton_select_destinations_4.0_full_cap_liberty": "compute2",
    "call_newton_select_destinations_4.0_raw_dicts": "compute2",
    "call_newton_select_destinations_4.3_full": "compute2",
    "call_select_destinations_4.0_raw_build_request_spec": "compute2",
}

ANSWERED = sorted(
    {*wire_samples.names("call_*select_destinations*")}
    - {*REFUSED, *LIMITED, *FAILED_THEN, EVERYTHING, OF_OLD}
)
# For two instances, of which the second has no name.
UNNAMED = ["call_newton_select_destinations_4.3_two_instances", "call_select_destinations_4.0"]


@pytest.fixture(scope="module")
def served(
    rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replaying]:
    """A scheduler that serves all samples over the hosts that they name."""
    directory = tmp_path_factory.mktemp("replay")
    with replaying(rabbitmq, mariadb, directory, OPTIONS) as found:
        yield found


@pytest.fixture
def cloud(served: Replaying) -> Replaying:
    """The same with nothing claimed and all hosts in the zone of those that are in none."""
    served.fleet.release()
    served.fleet.set_zone([])
    return served


@pytest.mark.parametrize("name", ANSWERED)
def test_a_captured_request_is_answered_as_it_was(cloud: Replaying, name: str) -> None:
    cloud.fleet.set_zone(ZONES.get(name, []))
    reply = _replayed(cloud.caller, wire_samples.sample(name))
    assert reply["failure"] is None
    assert reply["result"] == _expected(name)
    cloud.fleet.check(wire_samples.arguments(name), reply["result"])


@pytest.mark.parametrize("name", UNNAMED)
def test_a_request_for_instances_without_a_name_may_be_repeated(
    cloud: Replaying, name: str
) -> None:
    replies = [_replayed(cloud.caller, wire_samples.sample(name)) for _ in range(3)]
    assert [each["failure"] for each in replies] == [None] * 3
    assert [each["result"] for each in replies] == [_expected(name)] * 3
    cloud.fleet.check(wire_samples.arguments(name), replies[0]["result"])
    assert len(cloud.fleet.claims()) == 2


@pytest.mark.parametrize("name", sorted(FAILED_THEN))
def test_a_request_on_which_the_real_server_failed_is_answered(cloud: Replaying, name: str) -> None:
    cloud.fleet.set_zone(ZONES.get(name, []))
    reply = _replayed(cloud.caller, wire_samples.sample(name))
    host = FAILED_THEN[name]
    assert reply["failure"] is None
    assert reply["result"] == [{"host": host, "nodename": host, "limits": {}}]
    cloud.fleet.check(wire_samples.arguments(name), reply["result"])


def test_limits_are_those_that_were_captured(cloud: Replaying) -> None:
    with _limiting(cloud):
        for name, cells in product(LIMITED, (False, True)):
            sample = wire_samples.sample(name)
            if cells:
                guest = wire_samples.primitive("obj_request_spec_numa_pci")["nova_object.data"]
                _change(sample, numa_topology=guest["numa_topology"])
            sample["amqp"]["routing_key"] = "scheduler.limiting"
            reply = _replayed(cloud.caller, sample)
            assert reply["failure"] is None
            assert reply["result"] == _expected_limits(name, cells), (name, cells)
            cloud.fleet.release()


def test_a_request_for_everything_is_refused_for_what_only_placement_has(cloud: Replaying) -> None:
    cloud.fleet.set_zone(ZONES[EVERYTHING])
    reason = "Resources of ports or accelerators are requested, which only placement can allocate."
    assert _reason(cloud, wire_samples.sample(EVERYTHING)) == reason
    sample = wire_samples.sample(EVERYTHING)
    _change(sample, requested_resources=[])
    assert _reason(cloud, sample) == TRAIT
    # All the rest of it can be served.
    data = sample["message"]["args"]["spec_obj"]["nova_object.data"]
    image = data["image"]["nova_object.data"]["properties"]["nova_object.data"]
    image["traits_required"] = []
    _change(sample)
    reply = _replayed(cloud.caller, sample)
    assert reply["failure"] is None
    assert reply["result"] == _expected(EVERYTHING)
    cloud.fleet.check(wire_samples.arguments(EVERYTHING), reply["result"])


def test_an_old_request_for_everything_is_refused_for_the_trait_of_its_image(
    cloud: Replaying,
) -> None:
    assert _reason(cloud, wire_samples.sample(OF_OLD)) == TRAIT


@pytest.mark.parametrize("name", REFUSED)
def test_no_valid_host_is_that_of_nova(cloud: Replaying, name: str) -> None:
    with _disabled(cloud.database):
        reply = _replayed(cloud.caller, wire_samples.sample(name))
    assert reply["result"] is None
    captured = wire_samples.sample(name.replace("call_", "reply_", 1))["message"]
    ours, theirs = (json.loads(each["failure"]) for each in (reply, captured))
    assert ours.keys() == theirs.keys()
    assert {**ours, "tb": []} == {**theirs, "tb": []}
    assert not cloud.fleet.claims()


def _replayed(caller: AmqpCaller, sample: dict[str, Any]) -> dict[str, Any]:
    """Send a sample, and return the only reply to it after a look at all but what it says."""
    message_id = caller.replay(sample)
    (reply,) = caller.received(message_id)
    _check_envelope(reply, message_id)
    return reply.message


def _check_envelope(reply: Received, message_id: str | None) -> None:
    """Check that a reply is wrapped as the captured ones are."""
    captured = wire_samples.sample("reply_select_destinations_4.3")
    assert reply.envelope.keys() == captured["body"].keys()
    assert reply.envelope["oslo.version"] == captured["body"]["oslo.version"]
    assert reply.message.keys() == captured["message"].keys()
    assert reply.message["_msg_id"] == message_id
    assert len(reply.message["_unique_id"]) == len(captured["message"]["_unique_id"])
    # The queue of each caller has a name of its own.
    queue = reply.amqp["routing_key"]
    assert queue.startswith("reply_")
    assert reply.amqp == captured["amqp"] | {"routing_key": queue}


def _expected(name: str) -> Any:
    """Return the captured result with what is meant to differ from it."""
    result = wire_samples.sample(name.replace("call_", "reply_", 1))["message"]["result"]
    found = _as_meant(result)
    for selections in found:
        for each in selections if isinstance(selections, list) else ():
            each["nova_object.data"] |= MEANT_HERE.get(name, {})
    return found


def _as_meant(captured: Any) -> Any:
    if isinstance(captured, list):
        return [_as_meant(each) for each in captured]
    if not isinstance(captured, dict):
        return captured
    found = {name: _as_meant(each) for name, each in captured.items() if name not in LEFT_OUT}
    if "nova_object.name" in found:
        found["nova_object.data"] |= MEANT.get(found["nova_object.name"], {})
    return found


def _expected_limits(name: str, cells: bool) -> Any:
    """Return the expected result: the stand-in limited the cells of a guest that has none, too."""
    result = _expected(name)
    for entry in result:
        if isinstance(entry, dict):
            # Here only what is set is sent, in the version that all callers know.
            entry["limits"]["numa_topology"]["nova_object.version"] = "1.0"
            if not cells:
                del entry["limits"]["numa_topology"]
        elif not cells:
            for each in entry:
                each["nova_object.data"]["limits"]["nova_object.data"]["numa_topology"] = None
    return result


def _reason(cloud: Replaying, sample: dict[str, Any]) -> str:
    """Replay a request that is refused, and return why; nothing is claimed."""
    failure = json.loads(_replayed(cloud.caller, sample)["failure"])
    assert (failure["class"], failure["module"]) == ("NoValidHost", "nova.exception")
    assert failure["kwargs"] == {"reason": failure["kwargs"]["reason"], "code": 500}
    assert not cloud.fleet.claims()
    return str(failure["kwargs"]["reason"])


def _change(sample: dict[str, Any], **fields: Any) -> None:
    """Change fields of the spec in a captured request."""
    sample["message"]["args"]["spec_obj"]["nova_object.data"] |= fields
    sample["body"]["oslo.message"] = json.dumps(sample["message"])


@contextmanager
def _limiting(cloud: Replaying) -> Iterator[None]:
    """Let a scheduler whose filters set limits run besides the other, to be called by its name."""
    filters = {"enabled_filters": f"{FILTERS},{LIMITING}"}
    options = {"filter_scheduler": filters} | AS_PLACEMENT_CLAIMS
    process = cloud.deployment.scheduler(name="limiting", options=with_cell(options))
    try:
        yield
    finally:
        process.kill()


@contextmanager
def _disabled(database: Database) -> Iterator[None]:
    """Let no host be available until the end of the block."""
    ids = range(1, len(HOSTS) + 1)
    database.write(lambda connection: services.disable_automatically(connection, ids, "a test"))
    yield
    database.write(lambda connection: services.enable_automatically(connection, ids))

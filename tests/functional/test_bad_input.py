# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Malformed and hostile requests: a clear error for the caller, and the service goes on."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from uuid import uuid4

import pytest

from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import InvalidInput
from tests.builders import a_request
from tests.fixtures.amqp_caller import AmqpCaller
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Guard, Process
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet
from tests.unit.scheduler.wire import wire_samples

# What the largest properties of an image were in a storm.
TEXTS = [*(f"hw_{number}" for number in range(300)), "hw_disk_bus"]
GOOD = "call_select_destinations_4.5_objects_no_alternates"
SPEC = wire_samples.arguments(GOOD)["spec_obj"]


def _edited(*path: str, value: Any) -> dict[str, Any]:
    """Return a good request with one value replaced."""
    message = deepcopy(wire_samples.sample(GOOD)["message"])
    place = message["args"]
    for name in path[:-1]:
        place = place[name]
        place = place.get("nova_object.data", place)
    place[path[-1]] = value
    return message


def _forced(size: str, value: int) -> dict[str, Any]:
    """Return a request for so much on one host, which no filter is asked about."""
    message = _edited("spec_obj", "flavor", size, value=value)
    message["args"]["spec_obj"]["nova_object.data"]["force_hosts"] = ["compute1"]
    return message


MALFORMED = {
    "spec is null": (_edited("spec_obj", value=None), "spec_obj"),
    "spec is a text": (_edited("spec_obj", value="m1.small"), "spec_obj"),
    "flavor is a list": (_edited("spec_obj", "flavor", value=[1]), "flavor"),
    "vcpus is a text": (_edited("spec_obj", "flavor", "vcpus", value="two"), "vcpus"),
    "vcpus is negative": (_edited("spec_obj", "flavor", "vcpus", value=-1), "vcpus"),
    "memory is huge": (_edited("spec_obj", "flavor", "memory_mb", value=10**30), "memory_mb"),
    # More than the database's columns can count.
    "vcpus near 2^31": (_forced("vcpus", 2**31 - 1), "spec_obj.flavor.vcpus"),
    "memory near 2^31": (_forced("memory_mb", 2**31 - 1), "spec_obj.flavor.memory_mb"),
    "root disk near 2^31": (_forced("root_gb", 2**31 - 1), "spec_obj.flavor.root_gb"),
    "ephemeral disk near 2^31": (_forced("ephemeral_gb", 2**31 - 1), "spec_obj.flavor.root_gb"),
    "a billion instances": (_edited("spec_obj", "num_instances", value=10**9), "num_instances"),
    "uuids are lists": (_edited("instance_uuids", value=[[1], [2]]), "instance_uuids"),
    "a uuid twice": (_edited("instance_uuids", value=["a", "a"]), "instance_uuids"),
    "a uuid with a blank": (_edited("instance_uuids", value=["a "]), "instance_uuids"),
    "a uuid with an accent": (_edited("instance_uuids", value=["\u00e1"]), "instance_uuids"),
    "attempts near 2^31": (
        _edited("spec_obj", "retry", value={"num_attempts": 2**31 - 1, "hosts": []}),
        "spec_obj.retry.num_attempts",
    ),
    "20 MB of image properties": (
        _edited("spec_obj", "image", "properties", value=dict.fromkeys(TEXTS, "x" * 65_000)),
        "bytes, at most 1048576 are allowed",
    ),
    "hints are a list": (_edited("spec_obj", "scheduler_hints", value=["x"]), "scheduler_hints"),
    "half a megabyte of nonsense": (_edited("spec_obj", value="x" * 2**19), "spec_obj"),
    "wrong major version of the object": (
        _edited("spec_obj", value={**SPEC, "nova_object.version": "9.0"}),
        "spec_obj",
    ),
    "a version that is a number": (
        _edited("spec_obj", value={**SPEC["nova_object.data"], "nova_object.version": 5}),
        "spec_obj",
    ),
    "an unknown server group": (
        _edited("spec_obj", "scheduler_hints", value={"group": ["nowhere"]}),
        "scheduler_hints.group",
    ),
}


@pytest.fixture(scope="module")
def scheduler(
    rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Process, AmqpCaller]]:
    directory = tmp_path_factory.mktemp("hostile")
    with Guard() as guard, AmqpCaller(rabbitmq.transport_url) as caller:
        deployment = Deployment(
            directory, guard, rabbitmq.transport_url, mariadb.create_database(directory.name)
        )
        deployment.make_tables()
        database = deployment.open_database()
        a_fleet(database, ["compute1"])
        database.close()
        yield deployment.scheduler(), caller


def _still_serves(caller: AmqpCaller) -> bool:
    reply = caller.call(wire_samples.sample(GOOD)["message"])
    return bool(reply["result"][0][0]["nova_object.data"]["service_host"] == "compute1")


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_request_is_answered_with_the_name_of_the_field(
    scheduler: tuple[Process, AmqpCaller], case: str
) -> None:
    process, caller = scheduler
    message, field = MALFORMED[case]
    failure = caller.call(message)["failure"]
    assert (failure["class"], failure["module"]) == ("InvalidInput", "nova.exception")
    assert field in failure["message"]
    assert len(failure["message"]) < 500
    assert "sql" not in json.dumps(failure).lower()
    assert _still_serves(caller)
    assert process.status is None
    assert "Traceback" not in process.log.read_text()


def test_a_uuid_in_capitals_is_that_of_the_same_instance(
    scheduler: tuple[Process, AmqpCaller],
) -> None:
    """Its pending claim is replaced, and a repeated request gets the same answer."""
    process, caller = scheduler
    uuid = str(uuid4())
    for given, request_id in ((uuid, "req-a"), (uuid.upper(), "req-b"), (uuid, "req-b")):
        message = _edited("instance_uuids", value=[given]) | {"_context_request_id": request_id}
        assert caller.call(message)["failure"] is None
    logged = [line for line in process.log.read_text().splitlines() if f"instance {uuid}" in line]
    assert ["answered before" in line for line in logged] == [False, False, True]
    assert not any("conflict" in line for line in logged)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("ping", {}), ("ping", {"arg": 1, "other": 2}), ("get_backdoor_port", {"arg": 1})],
)
def test_wrong_arguments_of_what_all_services_answer_leave_no_traceback(
    scheduler: tuple[Process, AmqpCaller], method: str, arguments: dict[str, Any]
) -> None:
    process, caller = scheduler
    message = wire_samples.sample("call_baseapi_ping")["message"]
    failure = caller.call(message | {"method": method, "args": arguments})["failure"]
    assert (failure["class"], failure["module"]) == ("TypeError", "builtins")
    assert failure["message"].startswith(f"BaseRPCAPI.{method}() ")
    assert "Traceback" not in process.log.read_text()


@pytest.mark.parametrize("hints", [{"no-such-hint": ["x"]}, {"query": ["not json"]}, None])
def test_hints_that_no_filter_knows_change_nothing(
    scheduler: tuple[Process, AmqpCaller], hints: Any
) -> None:
    _, caller = scheduler
    reply = caller.call(_edited("spec_obj", "scheduler_hints", value=hints))
    assert reply["failure"] is None


@pytest.mark.parametrize(
    "body",
    ["", "null", "[]", "{", '"text"', "x" * 2**20, '{"oslo.version": "2.0"}', b"\xff\xfe\x00"],
    ids=["empty", "null", "list", "half", "text", "megabyte", "half an envelope", "bytes"],
)
def test_a_body_that_is_no_message_is_dropped_and_the_service_goes_on(
    scheduler: tuple[Process, AmqpCaller], body: str | bytes
) -> None:
    process, caller = scheduler
    caller.send_body(body)
    assert _still_serves(caller)
    assert process.status is None


def test_a_malformed_cast_is_dropped_and_the_service_goes_on(
    scheduler: tuple[Process, AmqpCaller],
) -> None:
    _, caller = scheduler
    message, _ = MALFORMED["flavor is a list"]
    caller.send({key: value for key, value in message.items() if key != "_msg_id"})
    assert _still_serves(caller)


def test_our_own_client_raises_the_same(
    scheduler: tuple[Process, AmqpCaller], client: SchedulerClient
) -> None:
    spec = a_request(vcpus=1, scheduler_hints={"group": ["nowhere"]})
    with pytest.raises(InvalidInput, match="there is no server group 'nowhere'"):
        client.select_destinations(RequestContext(), spec, ["uuid"])

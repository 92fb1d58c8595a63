# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Every captured call of real Nova clients, sent byte for byte to the running scheduler."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inventory import aggregates, services
from tests.databases import execute
from tests.fixtures.amqp_caller import AmqpCaller
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Guard, Process
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet
from tests.unit.scheduler.rpc import wire

HOSTS = ["compute1", "compute2", "compute3", "compute4"]
IN_AZ1 = ["compute2", "compute3"]
# What some samples require of their destination.
AGGREGATE = "00000000-0000-0000-2222-000000000001"
SELECTS = [name for name in wire.names("call_*select_destinations*") if "novalidhost" not in name]
# What the scheduler does not serve: methods invented for the capture, and those of other services.
UNSERVED = {
    "call_error_no_such_method": ("NoSuchMethod", "Endpoint does not support RPC method"),
    "call_error_unexpected_valueerror": ("NoSuchMethod", "Endpoint does not support RPC method"),
    "call_monitored_slow_method": ("NoSuchMethod", "Endpoint does not support RPC method"),
    "call_oslo_rpc_server_ping_disabled": ("NoSuchMethod", "Endpoint does not support RPC method"),
    "call_error_unsupported_major": ("UnsupportedVersion", "RPC version 5.0"),
    "call_error_unsupported_version": ("UnsupportedVersion", "RPC version 4.6"),
    "call_conductor_object_backport_versions_full": ("UnsupportedVersion", "RPC version 3.0"),
    "call_conductor_object_backport_versions_minimal": ("UnsupportedVersion", "RPC version 3.0"),
}
OTHERS = {
    "call_baseapi_ping",
    "call_baseapi_get_backdoor_port",
    "call_error_unexpected_typeerror_bad_kwarg",
}


@pytest.fixture(scope="module")
def served(
    rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[AmqpCaller, Process]]:
    """A caller, and a scheduler that serves all samples over the hosts that they name."""
    with Guard() as guard, AmqpCaller(rabbitmq.transport_url) as found:
        deployment = _deployment(tmp_path_factory.mktemp("replay"), guard, rabbitmq, mariadb)
        yield found, deployment.scheduler(name="scheduler1")


@pytest.fixture
def caller(served: tuple[AmqpCaller, Process]) -> AmqpCaller:
    return served[0]


def _deployment(directory: Path, guard: Guard, rabbitmq: RabbitMQ, mariadb: MariaDB) -> Deployment:
    found = Deployment(
        directory, guard, rabbitmq.transport_url, mariadb.create_database(directory.name)
    )
    found.sync()
    database = found.open_database()
    a_fleet(database, HOSTS)
    database.write(
        lambda connection: aggregates.create(
            connection, "az1", IN_AZ1, {"availability_zone": "az1"}
        )
    )
    execute(database, "UPDATE aggregates SET uuid = :uuid", uuid=AGGREGATE)
    database.close()
    return found


def test_every_captured_call_is_replayed_by_some_test() -> None:
    refused = set(wire.names("call_*novalidhost"))
    assert {*SELECTS, *UNSERVED, *OTHERS, *refused} == set(wire.names("call_*"))


@pytest.mark.parametrize("name", SELECTS)
def test_a_captured_request_is_answered_in_the_form_of_its_time(
    caller: AmqpCaller, name: str
) -> None:
    # They were captured under one id and for one instance, as no two requests are in a cloud.
    message = wire.sample(name)["message"] | {"_context_request_id": f"req-{name}"}
    reply = caller.call(message)
    assert reply["failure"] is None
    expected = wire.sample(name.replace("call_", "reply_", 1))["message"]["result"]
    # Where the real server failed on a request that was well formed, only the form is known.
    if expected is not None:
        assert len(reply["result"]) == len(expected)
        assert _form(reply["result"][0]) == _form(expected[0])
    allowed = _allowed(wire.arguments(name))
    assert {_host(each) for each in reply["result"]} <= allowed


def test_no_valid_host_is_byte_for_byte_that_of_nova(
    rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path: Path
) -> None:
    with Guard() as guard, AmqpCaller(rabbitmq.transport_url) as caller:
        deployment = _deployment(tmp_path, guard, rabbitmq, mariadb)
        database = deployment.open_database()
        database.write(lambda c: services.disable_automatically(c, range(1, 5), "test"))
        database.close()
        # Called by its name, since the other scheduler of this module listens as well.
        deployment.scheduler(name="refusing")
        for name in wire.names("call_*novalidhost"):
            sample = wire.sample(name)
            failure = caller.call(sample["message"], "scheduler.refusing")["failure"]
            failure.pop("tb")
            assert failure == {
                "class": "NoValidHost",
                "module": "nova.exception",
                "message": "No valid host was found. There are not enough hosts available.",
                "args": ["No valid host was found. There are not enough hosts available."],
                "kwargs": {"reason": "There are not enough hosts available.", "code": 500},
            }


@pytest.mark.parametrize("name", sorted(UNSERVED))
def test_what_is_not_served_is_refused_as_oslo_messaging_does(
    served: tuple[AmqpCaller, Process], name: str
) -> None:
    caller, scheduler = served
    failure = caller.call(wire.sample(name)["message"])["failure"]
    kind, text = UNSERVED[name]
    assert failure["class"] == kind
    assert failure["module"] == "oslo_messaging.rpc.dispatcher"
    assert text in failure["message"]
    log = scheduler.log.read_text()
    assert f"Refused a call: {failure['message']}" in log
    assert "Traceback" not in log


def test_an_unknown_keyword_is_a_type_error(caller: AmqpCaller) -> None:
    sample = wire.sample("call_error_unexpected_typeerror_bad_kwarg")
    failure = caller.call(sample["message"])["failure"]
    assert (failure["class"], failure["module"]) == ("TypeError", "builtins")
    assert "unexpected keyword argument 'bogus'" in failure["message"]


def test_base_api(caller: AmqpCaller) -> None:
    ping = caller.call(wire.sample("call_baseapi_ping")["message"])
    assert ping["result"] == wire.sample("reply_baseapi_ping")["message"]["result"]
    backdoor = caller.call(
        wire.sample("call_baseapi_get_backdoor_port")["message"], "scheduler.scheduler1"
    )
    assert backdoor["failure"] is None
    assert backdoor["result"] is None


@pytest.mark.parametrize("name", wire.names("cast_*"))
def test_a_captured_cast_is_taken_without_complaint(
    served: tuple[AmqpCaller, Process], name: str
) -> None:
    caller, scheduler = served
    logged = len(scheduler.log.read_text())
    assert caller.send(wire.sample(name)["message"]) is None
    # Answered after the cast was taken from the same queue.
    assert caller.call(wire.sample("call_baseapi_ping")["message"])["failure"] is None
    assert "ERROR" not in scheduler.log.read_text()[logged:]


def _form(entry: Any) -> Any:
    """Return what a caller relies on in an entry: keys, names and versions, not the choice."""
    if isinstance(entry, list):
        return [_form(each) for each in entry[:1]]
    if "nova_object.data" not in entry:
        return set(entry)
    # The zone may be left out: the conductor looks it up then.
    keys = set(entry["nova_object.data"]) - {"availability_zone"}
    return (entry["nova_object.name"], entry["nova_object.version"], keys)


def _host(entry: Any) -> str:
    if isinstance(entry, dict):
        return str(entry["host"])
    return str(entry[0]["nova_object.data"]["service_host"])


def _allowed(arguments: dict[str, Any]) -> set[str]:
    """Return the hosts that a captured request leaves by name and zone."""
    if "spec_obj" in arguments:
        spec = arguments["spec_obj"]["nova_object.data"]
        zone, destination = spec.get("availability_zone"), spec.get("requested_destination")
    else:
        spec = arguments["filter_properties"]
        properties = arguments["request_spec"]["instance_properties"]
        zone, destination = properties.get("availability_zone"), spec.get("requested_destination")
    allowed = set(HOSTS) - set(spec.get("ignore_hosts") or ())
    if spec.get("force_hosts"):
        return allowed & set(spec["force_hosts"])
    target = (destination or {}).get("nova_object.data", {}).get("host")
    if target:
        allowed &= {target}
    zones = {"az1": set(IN_AZ1), "nova": set(HOSTS) - set(IN_AZ1)}
    return allowed & zones.get(zone, set(HOSTS))

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command beside another consumer: it gets a copy of each request and takes none."""

import json
from collections.abc import Iterator
from typing import Any

import kombu
import kombu.simple
import pytest

from inventory.claims import existing
from inventory.engine import Database
from tests.fixtures.amqp_caller import EXCHANGE, AmqpCaller
from tests.fixtures.canned_http import CannedServer, serving
from tests.fixtures.daemons.process import PATIENCE, Guard, Process
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import BIN, Deployment, a_fleet, wait_for_log
from tests.unit.scheduler.wire import wire_samples

CALL = "call_select_destinations_4.5_objects_alternates"
LISTENING = "Listening for requests to nova-scheduler ...\n"
HOSTS = ("h1", "h2", "small")


@pytest.fixture
def placement() -> Iterator[CannedServer]:
    """Placement with a provider for each host."""
    with serving() as found:
        providers = [
            {"uuid": uuid, "name": uuid, "generation": 1, "parent_provider_uuid": None}
            | {"root_provider_uuid": uuid}
            for uuid in HOSTS
        ]
        found.answer("GET", "/resource_providers", {"resource_providers": providers})
        yield found


@pytest.fixture
def nova_scheduler(rabbitmq: RabbitMQ) -> Iterator[kombu.simple.SimpleQueue]:
    """The queue of nova-scheduler, bound as oslo.messaging does."""
    with kombu.Connection(rabbitmq.transport_url.replace("rabbit://", "amqp://")) as connection:
        queue = kombu.Queue("scheduler", EXCHANGE, "scheduler", durable=False)
        queue(connection.channel()).declare()
        taken = connection.SimpleQueue(queue)
        yield taken
        taken.close()


def choose(placement: CannedServer, uuid: str, host: str | None) -> None:
    """Have nova-scheduler choose a host for an instance, or none."""
    allocations = {host: {"generation": 1, "resources": {"VCPU": 1}}} if host else {}
    body = {"allocations": allocations}
    placement.answer("GET", f"/allocations/{uuid}", body)


def start(guard: Guard, deployment: Deployment, url: str, *options: str) -> Process:
    section = {"auth_type": "none", "endpoint_override": url}
    config = deployment.write_config("shadow", {"placement": section})
    command = [str(BIN / "berthmaster"), f"--config-file={config}", "nova", "shadow", *options]
    home = {"HOME": str(deployment.directory)}
    process = guard.start("shadow", command, deployment.directory, home)
    wait_for_log(process, LISTENING)
    return process


def request(uuid: str) -> dict[str, Any]:
    """Return a captured request, for another instance."""
    message = wire_samples.sample(CALL)["message"]
    (old,) = message["args"]["instance_uuids"]
    text = json.dumps(message).replace(old, uuid)
    return dict(json.loads(text))


def test_requests_are_compared_and_left_to_nova_s_scheduler(
    deployment: Deployment,
    database: Database,
    placement: CannedServer,
    rabbitmq: RabbitMQ,
    nova_scheduler: kombu.simple.SimpleQueue,
) -> None:
    a_fleet(database, HOSTS[:2])
    a_fleet(database, HOSTS[2:], memory_mb=600, free_ram_mb=88)
    uuids = [f"00000000-0000-0000-1111-00000000000{n}" for n in range(1, 4)]
    for uuid, host in zip(uuids, ("h1", "small", None), strict=True):
        choose(placement, uuid, host)
    with Guard() as guard, AmqpCaller(rabbitmq.transport_url) as caller:
        options = ("--requests=3", "--wait=1", "-f", "json")
        shadow = start(guard, deployment, placement.url, *options)
        caller.send_body('{"of": "nobody"}')
        sent = [caller.send(request(uuid)) for uuid in uuids]
        assert shadow.wait() == 1
        found = json.loads(shadow.log.read_text().partition(LISTENING)[2])
        # It got a copy of each and answered none.
        heard = [nova_scheduler.get(timeout=PATIENCE) for _ in range(4)]
        assert [each.ack() for each in heard] == [None] * 4
        assert not any(caller.received_yet(each) for each in sent)
    kinds = [each["kind"] for each in found["comparisons"]]
    assert kinds[0] in ("same", "tie")
    assert kinds[1:] == ["filtered", "refused_by_nova"]
    assert found["decided_by"] == {"RamFilter": 1}
    assert (
        "RamFilter needs 2048 MB of memory, the host has only 600"
        in found["comparisons"][1]["text"]
    )
    assert found["seconds"]["nova_seen"]["requests"] == 2
    assert database.read(lambda each: existing.listed(each, None, None, True)) == []


def test_without_placement_it_says_what_to_configure(deployment: Deployment) -> None:
    done = deployment.cli("nova", "shadow", "--requests=1")
    assert done.returncode == 1
    assert "Placement cannot be asked" in done.stderr
    assert "Traceback" not in done.stderr

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A rack dies while its protected instances are evacuated by two schedulers and others boot."""

from collections import defaultdict
from collections.abc import Iterator
from random import Random
from uuid import uuid4

import pytest
import sqlalchemy as sa

from inventory.claims import standbys
from inventory.objects.standby import held
from inventory.operations import aggregate_operations, service_operations
from inventory.operations.aggregate_operations import ZoneRules
from inventory.tables import standbys as table
from tests.fixtures.amqp_caller import AmqpCaller
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Guard
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment
from tests.fixtures.moving import SCHEDULERS, Moving, request
from tests.fixtures.played import Size

HOSTS, PER_RACK, PROTECTED = 8, 2, 20
OPTIONS = {
    "failover": {"protect": "none", "keeper_interval": 1},
    "filter_scheduler": {"enabled_filters": "ComputeFilter,RamFilter,CoreFilter,DiskFilter"},
}


@pytest.fixture
def cloud(
    rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Moving]:
    directory = tmp_path_factory.mktemp("standbys")
    url = mariadb.create_database(directory.name)
    with Guard() as guard, AmqpCaller(rabbitmq.transport_url) as caller:
        deployment = Deployment(directory, guard, rabbitmq.transport_url, url)
        deployment.make_tables()
        database = deployment.open_database()
        found = Moving(deployment, database, caller)
        hosts = found.add_hosts("racked", HOSTS)
        for name, backend in SCHEDULERS.items():
            deployment.scheduler(backend, OPTIONS, name=name)
        found.wait_for(hosts)
        yield found
        database.close()


def protected(message: dict, mode: str = "required") -> dict:
    flavor = message["args"]["spec_obj"]["nova_object.data"]["flavor"]["nova_object.data"]
    flavor["extra_specs"] = {"berthmaster:failover": mode}
    return message


def limit(node: sa.Row) -> float:
    return float(node.memory_mb * (node.ram_allocation_ratio or node.initial_ram_allocation_ratio))


def test_all_protected_instances_of_a_rack_that_dies_have_a_place(cloud: Moving) -> None:
    racks = _racks(cloud)
    size = Size(1, int(limit(cloud.nodes[cloud.played.names[0]])) // 9, 1)
    schedulers = [*SCHEDULERS]
    places: dict[str, str] = {}
    for number in range(PROTECTED):
        uuid = str(uuid4())
        message = protected(request("objects_no_alternates", uuid, size, ignore_hosts=[]))
        found = cloud.ask(message, schedulers[number % 2])
        assert found, f"no room for instance {number}"
        places[uuid] = found[0]
        cloud.played.arrive(uuid, found[0], size)
    assert cloud.wait_until(
        lambda: all(cloud.claims(uuid) == {host: "confirmed"} for uuid, host in places.items())
    )
    # Others take all that is left.
    while cloud.ask(request("objects_no_alternates", str(uuid4()), size, ignore_hosts=[])):
        pass
    on_rack = defaultdict(list)
    for uuid, host in places.items():
        on_rack[racks[host]].append(uuid)
    dying = max(on_rack, key=lambda rack: len(on_rack[rack]))
    for host in (host for host, rack in racks.items() if rack == dying):
        cloud.database.write(
            lambda each, host=host: service_operations.force_down(each, [host], True)
        )
    lost = on_rack[dying]
    messages = [
        (uuid, protected(request("evacuate", uuid, size, ignore_hosts=[places[uuid]])))
        for uuid in lost
    ]
    boots = [request("objects_no_alternates", str(uuid4()), size, ignore_hosts=[]) for _ in lost]
    everything = [*messages, *(("", each) for each in boots)]
    Random(1).shuffle(everything)
    sent = [
        (uuid, cloud.send(message, schedulers[number % 2]))
        for number, (uuid, message) in enumerate(everything)
    ]
    answers = [(uuid, cloud.answer(each)) for uuid, each in sent]
    refused = [uuid for uuid, found in answers if uuid and not found]
    assert not refused
    for uuid, found in answers:
        if uuid:
            assert found is not None
            assert racks[found[0]] != dying
    _nothing_is_booked_twice(cloud)


def _racks(cloud: Moving) -> dict[str, str]:
    """Put the hosts into racks; return the rack of each."""
    found = {}
    for number, host in enumerate(cloud.played.names):
        found[host] = rack = f"rack{number // PER_RACK}"
        cloud.database.write(lambda each, rack=rack, host=host: _add(each, rack, host))
    return found


def _add(connection: sa.Connection, rack: str, host: str) -> None:
    query = sa.text("SELECT count(*) FROM aggregates WHERE name = :name")
    if not connection.execute(query, {"name": rack}).scalar_one():
        aggregate_operations.create(connection, rack, {"failure_domain": rack})
    aggregate_operations.add_hosts(connection, rack, [host], ZoneRules("nova"))


def _nothing_is_booked_twice(cloud: Moving) -> None:
    """Whatever standbys hold, instances and claims stay within the limit of each node."""
    sums = cloud.database.read(standbys.read_sums)
    for node in cloud.nodes.values():
        _, memory_mb, _ = held(sums.get(node.id, {}))
        assert node.memory_mb_used - memory_mb <= limit(node), node.host
    query = sa.select(sa.func.count()).select_from(table)
    assert cloud.database.read(lambda each: each.scalar(query)) >= PROTECTED

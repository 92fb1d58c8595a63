# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""In a cloud that an agent mirrors, what it would undo is refused, with the command of Nova's."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from inventory import aggregates, services
from inventory.aggregates import AggregateRecord
from inventory.engine import Database
from inventory.errors import NovasOwn
from inventory.operations import (
    aggregate_mirror,
    aggregate_operations,
    server_group_operations,
    service_operations,
)
from inventory.operations.aggregate_operations import Change, ZoneRules
from inventory.services import ServiceState
from inventory.tables import services as services_table
from tests.databases import a_uuid, serve

LIMIT = 60
CELL = a_uuid("cell")
ZONES = ZoneRules("nova")
Order = Callable[[sa.Connection], object]
SET = "openstack compute service set"


def follow(database: Database, **states: ServiceState) -> None:
    """Let a mirror say this of hosts."""

    def work(connection: sa.Connection) -> None:
        rows, _ = services.find_all(connection, states, services.COMPUTE[0])
        services.follow(connection, {row.id: states[row.host] for row in rows})

    database.write(work)


@pytest.fixture
def cloud(database: Database) -> Database:
    """Two hosts of a Nova cloud, h2 disabled there, and its one aggregate."""
    serve(database, "h1", "h2")
    off = ServiceState("disabled in Nova: disk", cell_uuid=CELL)
    follow(database, h1=ServiceState(cell_uuid=CELL), h2=off)
    aggregate_mirror.mirror(database, [AggregateRecord(1, a_uuid("a"), "a", ["h1"], {"x": "old"})])
    return database


def everything(database: Database) -> object:
    rows = database.read(lambda each: each.execute(sa.select(services_table)).all())
    return database.read(aggregates.everything), rows


ORDERS: dict[str, tuple[Order, str]] = {
    "create": (lambda c: aggregate_operations.create(c, "b", {}), "openstack aggregate create'"),
    "delete": (lambda c: aggregate_operations.delete(c, ["a"]), "openstack aggregate delete'"),
    "set": (
        lambda c: aggregate_operations.change(c, "a", Change(properties={"x": "y"}), ZONES),
        "openstack aggregate set'",
    ),
    "unset": (
        lambda c: aggregate_operations.change(c, "a", Change(without=["x"]), ZONES),
        "openstack aggregate unset'",
    ),
    "add host": (
        lambda c: aggregate_operations.add_hosts(c, "a", ["h2"], ZONES),
        "openstack aggregate add host'",
    ),
    "remove host": (
        lambda c: aggregate_operations.remove_hosts(c, "a", ["h1"], ZONES),
        "openstack aggregate remove host'",
    ),
    "enable": (
        lambda c: service_operations.enable(c, ["h1", "h2"]),
        f"h2 is disabled in Nova (disabled in Nova: disk), .*'{SET} --enable h2 nova-compute'",
    ),
    "force down": (
        lambda c: service_operations.force_down(c, ["h1"]),
        f"h1 is forced down in Nova alone, .*'{SET} --down h1 nova-compute'",
    ),
    "force up": (
        lambda c: service_operations.force_down(c, ["h1", "h2"], down=False),
        f"h1, h2 are .*'{SET} --up h1 nova-compute', and so on for each of 2 hosts",
    ),
    "delete host": (
        lambda c: service_operations.delete(c, ["h1"], LIMIT),
        "'openstack compute service delete ID', with the ID of '.* --host h1 ",
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_what_the_mirror_would_undo_is_refused(cloud: Database, name: str) -> None:
    order, text = ORDERS[name]
    before = everything(cloud)
    with pytest.raises(NovasOwn, match=text.replace("(", r"\(").replace(")", r"\)")) as refused:
        cloud.write(order)
    assert "\n" not in str(refused.value)
    assert everything(cloud) == before


@pytest.mark.parametrize("name", ORDERS)
def test_of_hosts_with_agents_of_their_own_nothing_is_refused(cloud: Database, name: str) -> None:
    """As when these have taken over from the mirror."""
    ids = [row.id for row in cloud.read(services.all_live)]
    cloud.write(lambda c: services.leave_nova(c, ids))
    late = sa.update(services_table).values(last_seen_up=sa.func.date("2026-01-01"))
    if name == "delete host":
        cloud.write(lambda c: c.execute(late))
    if name == "delete":
        cloud.write(lambda c: aggregate_operations.remove_hosts(c, "a", ["h1"], ZONES))
    cloud.write(ORDERS[name][0])


def test_a_host_of_a_mirror_that_has_ended_may_be_deleted(cloud: Database) -> None:
    late = sa.update(services_table).values(last_seen_up=sa.func.date("2026-01-01"))
    cloud.write(lambda c: c.execute(late))
    cloud.write(lambda c: service_operations.delete(c, ["h1"], LIMIT))
    assert [row.host for row in cloud.read(services.all_live)] == ["h2"]


def test_a_disabled_cell_is_enabled_in_nova(cloud: Database) -> None:
    follow(cloud, h1=ServiceState("cell east is disabled in Nova", cell_uuid=CELL))
    command = f"nova-manage cell_v2 update_cell --cell_uuid {CELL} --enable"
    with pytest.raises(NovasOwn, match=command):
        cloud.write(lambda c: service_operations.enable(c, ["h1"]))


def test_what_nova_knows_nothing_of_is_ours(cloud: Database) -> None:
    cloud.write(lambda c: service_operations.begin_maintenance(c, ["h1", "h2"], "lamp"))
    cloud.write(lambda c: service_operations.end_maintenance(c, ["h1", "h2"]))
    cloud.write(lambda c: service_operations.disable(c, ["h1", "h2"], "lamp"))
    (one, _) = cloud.write(lambda c: service_operations.enable(c, ["h1", "h2"]))
    assert one["note"].startswith("the state of the host in Nova counts again at the next audit")
    cloud.write(lambda c: server_group_operations.create(c, "g", "anti-affinity"))

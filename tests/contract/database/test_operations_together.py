# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Several operators at the same moment, each in a thread with connections of its own."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa

from inventory import aggregates, instances, revisions, services, tables
from inventory.claims import claims, group_locks
from inventory.claims.types import Claim, ClaimLost, ClaimRequest, GroupRule
from inventory.errors import InUse, NotFound, OperationRefused
from inventory.operations import aggregate_operations, server_group_operations, service_operations
from inventory.operations.aggregate_operations import Change, ZoneRules
from tests.databases import a_uuid, an_instance, open_at, serve
from tests.fixtures.daemons.process import PATIENCE

ZONES = ZoneRules("nova")
ROUNDS = range(8)
Work = Callable[[sa.Connection], Any]


def together(url: str, *works: Work) -> list[Any]:
    """Do works at the same moment; return what they returned, or how they were refused."""
    begin = Barrier(len(works), timeout=PATIENCE)

    def run(work: Work) -> Any:
        with closing(open_at(url)) as database:
            database.read(revisions.current)[0]
            begin.wait()
            try:
                return database.write(work)
            except OperationRefused as error:
                return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def outcomes(found: Sequence[Any]) -> Counter[str]:
    return Counter(type(each).__name__ for each in found)


def create(database, name, **properties):
    return database.write(lambda c: aggregate_operations.create(c, name, properties))


def adding(aggregate, host):
    return lambda c: aggregate_operations.add_hosts(c, aggregate, [host], ZONES)


def setting(aggregate, zone):
    change = Change(properties={"availability_zone": zone})
    return lambda c: aggregate_operations.change(c, aggregate, change, ZONES)


def zones_of(database, host):
    return aggregates.zones_by_host(database.read(aggregates.everything)).get(host, set())


def test_one_of_many_puts_a_host_into_a_zone(url, database):
    zones = [f"z{number}" for number in range(4)]
    for zone in zones:
        create(database, zone, availability_zone=zone)
    for number in ROUNDS:
        host = f"h{number}"
        serve(database, host)
        found = together(url, *(adding(zone, host) for zone in zones))
        assert outcomes(found) == {"dict": 1, "InUse": 3}
        (winner,) = (each for each in found if isinstance(each, dict))
        assert zones_of(database, host) == {winner["availability_zone"]}


def test_a_host_is_not_added_while_the_zone_of_another_of_its_aggregates_is_set(url, database):
    create(database, "fixed", availability_zone="north")
    serve(database, *(f"h{number}" for number in ROUNDS))
    for number in ROUNDS:
        name, host = f"a{number}", f"h{number}"
        create(database, name)
        database.write(adding("fixed", host))
        found = together(url, adding(name, host), setting(name, "south"))
        assert outcomes(found) == {"dict": 1, "InUse": 1}
        assert zones_of(database, host) == {"north"}


def test_a_host_and_its_aggregate_are_not_lost_to_each_other(url, database):
    for number in ROUNDS:
        name = f"a{number}"
        create(database, name)
        serve(database, "h1")
        found = together(
            url, adding(name, "h1"), lambda c, n=name: aggregate_operations.delete(c, [n])
        )
        assert sorted(outcomes(found)) in (["InUse", "dict"], ["NotFound", "list"])
    orphans = sa.select(tables.aggregate_hosts.c.aggregate_id).where(
        tables.aggregate_hosts.c.aggregate_id.not_in(sa.select(tables.aggregates.c.id))
    )
    assert database.read(lambda c: c.execute(orphans).all()) == []


def silence(connection):
    (row,) = services.all_live(connection)
    seen = row.now - timedelta(seconds=300)
    connection.execute(sa.update(tables.services).values(last_seen_up=seen))


def test_a_service_that_is_deleted_leaves_the_aggregate_that_it_joins(url, database):
    create(database, "a")
    for _ in ROUNDS:
        serve(database, "h1")
        database.write(silence)
        found = together(url, adding("a", "h1"), lambda c: service_operations.delete(c, ["h1"], 60))
        assert isinstance(found[1], list)
        assert isinstance(found[0], dict | NotFound)
        assert database.read(aggregates.everything)[0].hosts == []


@pytest.mark.parametrize(
    "order",
    [
        lambda c: aggregate_operations.create(c, "same", {}),
        lambda c: server_group_operations.create(c, "same", "affinity"),
    ],
    ids=["aggregate", "server group"],
)
def test_a_name_is_given_once(url, database, order):
    create(database, "earlier")
    database.write(lambda c: server_group_operations.create(c, "earlier", "affinity"))
    assert outcomes(together(url, *[order] * 3)) == {"dict": 1, "InUse": 2}


def test_properties_of_many_are_all_kept(url, database):
    create(database, "a")

    def setting_number(number):
        return lambda c: aggregate_operations.change(
            c, "a", Change(properties={f"k{number}": "v"}), ZONES
        )

    before = database.read(revisions.current)[0][revisions.AGGREGATES]
    together(url, *(setting_number(number) for number in range(6)))
    (record,) = database.read(aggregates.everything)
    assert record.metadata == {f"k{number}": "v" for number in range(6)}
    assert database.read(revisions.current)[0][revisions.AGGREGATES] == before + 6


def test_an_instance_joins_one_group_only(url, database):
    names = [f"g{number}" for number in range(3)]
    for name in names:
        database.write(lambda c, n=name: server_group_operations.create(c, n, "affinity"))
    for number in ROUNDS:
        guest = an_instance(f"u{number}")
        database.write(lambda c, g=guest, n=number: instances.replace(c, f"h{n}", f"h{n}", [g]))

        def joining(name, uuid=guest["uuid"]):
            return lambda c: server_group_operations.add_instances(c, name, [uuid], force=True)

        assert outcomes(together(url, *map(joining, names))) == {"dict": 1, "InUse": 2}


def claiming(instance, group=None, most=9):
    """Return what claims on h1 for an instance, as a member of a group if one is named."""
    wanted = Claim(instance, 1, "h1", "h1", 1, 512, 0)
    rule = GroupRule(group, [instance], most=most) if group else None
    return lambda c: claims.claim(c, ClaimRequest("req-1", "any", [wanted], 900, group=rule))


def forgiving(work):
    """Return work that is refused where a scheduler would try again."""

    def run(connection):
        try:
            return work(connection)
        except (group_locks.GroupUnlisted, ClaimLost) as error:
            raise NotFound(str(error)) from None

    return run


def test_an_instance_does_not_join_a_group_while_another_one_comes_to_its_host(url, cloud):
    for number in ROUNDS:
        name, old, new = f"g{number}", a_uuid(f"old {number}"), a_uuid(f"new {number}")
        cloud.write(claiming(old))
        made = cloud.write(lambda c, n=name: server_group_operations.create(c, n, "anti-affinity"))
        group_locks.ensure(cloud, [made["id"]])
        found = together(
            url,
            forgiving(claiming(new, made["id"], most=1)),
            lambda c, n=name, u=old: server_group_operations.add_instances(c, n, [u]),
        )
        assert [type(each) for each in found] in ([claims.ClaimResult, InUse], [NotFound, dict])


def test_a_group_is_not_deleted_under_who_claims_for_it(url, cloud):
    database = cloud
    database.write(lambda c: server_group_operations.create(c, "earlier", "affinity"))
    for number in ROUNDS:
        made = database.write(
            lambda c, n=number: server_group_operations.create(c, f"g{n}", "anti-affinity")
        )
        group_locks.ensure(database, [made["id"]])
        found = together(
            url,
            forgiving(claiming(a_uuid(f"member {number}"), made["id"])),
            lambda c, n=number: server_group_operations.delete(c, [f"g{n}"]),
        )
        # Who comes second makes the row of the group anew, and claims for a group of its own.
        assert [type(each) for each in found] in ([claims.ClaimResult, InUse], [NotFound, list])

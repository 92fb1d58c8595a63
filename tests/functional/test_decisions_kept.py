# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A scheduler keeps what it decides, so that it can be decided again, and stops when it is told."""

import signal
from typing import Any

import pytest

from inventory import decisions
from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.history.saved_decision import from_database
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.backends import backends_alike
from tests.builders import a_group, a_request
from tests.databases import a_uuid
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.deployment import Deployment, a_fleet

FILTERS = {
    "filter_scheduler": {"ram_weight_multiplier": "-1.5", "shuffle_best_same_weighed_hosts": True}
}


def ask(client: SchedulerClient, name: str, instances: int = 1, **changes: Any) -> list[str]:
    """Return the chosen hosts."""
    uuids = [a_uuid(f"{name} {each}") for each in range(instances)]
    context = RequestContext(request_id=f"req-{name}", project_id="p1", user_name="alice")
    selections = client.select_destinations(context, a_request(**changes), uuids)
    return [chosen.service_host for (chosen,) in selections]


def listed(database: Database) -> dict[str, Any]:
    """Return the kept decisions by the name of their requests."""
    rows = database.read(lambda connection: decisions.listed(connection, limit=1000))
    return {row.request_id.removeprefix("req-"): row for row in rows}


@backends_alike
def test_what_was_decided_until_the_end_can_be_decided_again(
    deployment: Deployment, database: Database, client: SchedulerClient, backend: str
) -> None:
    a_fleet(database, [f"h{each}" for each in range(5)])
    scheduler = deployment.scheduler(backend, FILTERS)
    hosts = {name: ask(client, name, 2, memory_mb=4096) for name in ("one", "two", "three")}
    group = a_group(members=[a_uuid("two 0")], hosts=hosts["two"][:1])
    hosts["four"] = ask(client, "four", 3, instance_group=group)
    # The answer is the one that was given before, and so is what was decided.
    assert ask(client, "one", 2, memory_mb=4096) == hosts["one"]
    with pytest.raises(NoValidHost):
        ask(client, "five", memory_mb=10**6)
    # What has not been written yet is written now.
    assert scheduler.stop() == 0
    rows = listed(database)
    assert {name: row.outcome for name, row in rows.items()} == {
        "one": "placed",
        "two": "placed",
        "three": "placed",
        "four": "placed",
        "five": "refused",
    }
    for name, row in rows.items():
        recalled = database.read(lambda connection, row=row: from_database(connection, row))
        with recalled.deciding() as driver:
            again = recalled.again(driver)
        assert recalled.is_same(again)
        assert [each.chosen.host for each in again.placements] == hosts.get(name, [])
        assert (row.project_id, row.scheduler) == ("project1", "scheduler1")
        assert set(recalled.record.settings["filter_scheduler"]) == set(FILTERS["filter_scheduler"])


def test_keeping_is_switched_while_a_scheduler_runs(
    deployment: Deployment, database: Database, client: SchedulerClient
) -> None:
    a_fleet(database, ["h1", "h2"])
    scheduler = deployment.scheduler(options={"decisions": {"keep": False}}, name="switched")

    def switch(keep: bool, times: int) -> None:
        deployment.write_config("switched", {"decisions": {"keep": keep}})
        scheduler.send(signal.SIGHUP)
        assert wait_until(lambda: scheduler.log.read_text().count("read again") == times)

    ask(client, "before")
    switch(True, 1)
    ask(client, "then")
    assert wait_until(lambda: [*listed(database)] == ["then"])
    switch(False, 2)
    ask(client, "after")
    switch(True, 3)
    ask(client, "at last")
    assert scheduler.stop() == 0
    rows = listed(database)
    assert [*rows] == ["at last", "then"]
    # The picture of the hosts has no hole for what was not kept.
    recalled = database.read(lambda connection: from_database(connection, rows["at last"]))
    with recalled.deciding() as driver:
        assert recalled.is_same(recalled.again(driver))

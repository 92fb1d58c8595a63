# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A guest without a claim is stored only if a second poll still finds it."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from oslo_config import cfg

from compute_agent.audit import unclaimed
from compute_agent.audit.row_builder import PollResult, Settings
from compute_agent.audit.tracker import POLLS, ResourceTracker
from compute_agent.virt.driver import NodeName
from compute_agent.virt.fake import FakeDriver
from inventory.engine import Database
from tests.claimed import claim_and_age
from tests.fixtures.agent import a_guest, guests, nodes, some_facts
from tests.records import manage

SERVICE = {"alpha": 7}
G = [a_guest(number) for number in range(10)]


class Polled(FakeDriver):
    """Counts its polls; then is called with their number after each."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.polls = 0
        self.then: Callable[[int], object] = lambda _: None

    def guests(self, node: NodeName) -> Any:
        found = [*super().guests(node)]
        self.polls += 1
        self.then(self.polls)
        return found


@pytest.fixture
def driver(conf: cfg.ConfigOpts, database: Database) -> Polled:
    driver = Polled(conf)
    ResourceTracker(conf, database, driver).audit(SERVICE)
    driver.polls = 0
    return driver


def seen(database: Database) -> set[str]:
    return {*guests(database)}


def test_a_node_that_has_no_row_is_polled_once(conf: cfg.ConfigOpts, database: Database) -> None:
    driver = Polled(conf)
    driver.add_guest("alpha", G[1])
    ResourceTracker(conf, database, driver).audit(SERVICE)
    assert (driver.polls, seen(database)) == (1, {G[1].uuid})


def test_a_guest_that_has_ended_since_its_poll_leaves_nothing(
    conf: cfg.ConfigOpts, database: Database, driver: Polled
) -> None:
    before = nodes(database)
    driver.add_guest("alpha", G[1])
    driver.then = lambda number: number == 1 and driver.remove_guest("alpha", G[1].uuid)
    ResourceTracker(conf, database, driver).audit(SERVICE)
    assert (driver.polls, seen(database), nodes(database)) == (2, set(), before)


def test_only_guests_that_are_new_at_each_poll_have_to_wait(
    conf: cfg.ConfigOpts, database: Database, driver: Polled
) -> None:
    driver.add_guest("alpha", G[0])
    driver.then = lambda number: driver.add_guest("alpha", G[number])
    tracker = ResourceTracker(conf, database, driver)
    tracker.audit(SERVICE)
    assert (driver.polls, seen(database)) == (POLLS, {each.uuid for each in G[: POLLS - 1]})
    driver.then = lambda _: None
    tracker.audit(SERVICE)
    assert seen(database) == {each.uuid for each in G[: POLLS + 1]}


def test_the_other_nodes_are_not_polled_again(conf: cfg.ConfigOpts, database: Database) -> None:
    conf.set_override("nodes", 2, group="fake")
    driver = Polled(conf)
    tracker = ResourceTracker(conf, database, driver)
    tracker.audit(SERVICE)
    driver.add_guest("alpha-node-0001", G[1])
    tracker.audit(SERVICE)
    assert (driver.polls, seen(database)) == (2 + 3, {G[1].uuid})


@pytest.mark.parametrize("known", ["claim", "row", "managed row"])
def test_a_guest_with_a_claim_or_a_row_is_polled_once(
    conf: cfg.ConfigOpts, database: Database, driver: Polled, known: str
) -> None:
    driver.add_guest("alpha", G[1])
    if known == "claim":
        claim_and_age(database, G[1].uuid.upper(), nodes(database)[0])
    elif known == "row":
        ResourceTracker(conf, database, driver).audit(SERVICE)
    else:
        manage(database, G[1].uuid.upper(), "alpha", "alpha")
    driver.polls = 0
    driver.add_guest("alpha", a_guest(1, name="renamed"))
    ResourceTracker(conf, database, driver).audit(SERVICE)
    assert driver.polls == 1
    assert {uuid.lower() for uuid in seen(database)} == {G[1].uuid}


@pytest.mark.parametrize("state", [{"vm_state": "shelved_offloaded"}, {"deleted": 1}])
def test_a_row_that_counts_no_more_is_as_none(
    conf: cfg.ConfigOpts, database: Database, driver: Polled, state: dict[str, Any]
) -> None:
    manage(database, G[1].uuid, "alpha", "alpha", **state)
    driver.add_guest("alpha", G[1])
    ResourceTracker(conf, database, driver).audit(SERVICE)
    assert driver.polls == 2


def test_a_driver_that_answers_from_what_it_has_read_before_is_believed_at_once(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    class Cached(Polled):
        def polled_at(self) -> float:
            return time.monotonic() - 1

    driver = Cached(conf)
    tracker = ResourceTracker(conf, database, driver)
    tracker.audit(SERVICE)
    driver.add_guest("alpha", G[1])
    tracker.audit(SERVICE)
    assert (driver.polls, seen(database)) == (2, {G[1].uuid})


def test_a_guest_with_a_reserved_place_keeps_it(database: Database) -> None:
    name, settings = NodeName("alpha", "alpha"), Settings("192.0.2.1")
    found = PollResult(name, "uuid", 7, settings, some_facts(), [G[1], G[2]])
    place = SimpleNamespace(compute_node_id=5, instance_uuid="place", taken_by=G[1].uuid.upper())
    elsewhere = SimpleNamespace(compute_node_id=6, instance_uuid=G[2].uuid, taken_by=None)
    claims: Any = [place, elsewhere]
    result = database.read(lambda each: unclaimed.find(each, [found], {name: 5}, claims, {}))
    assert result == {name: {G[2].uuid}}

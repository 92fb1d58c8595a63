# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Any history of orders leaves each host in one zone, and does what a plain model of it does."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from inventory import aggregates, instances
from inventory.engine import Database
from inventory.errors import OperationRefused
from inventory.operations import aggregate_operations
from inventory.operations.aggregate_operations import Change, ZoneRules
from tests.databases import an_instance, empty, serve

HISTORIES = settings(stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow])
HOSTS, LIVED_IN = ("h1", "h2", "h3"), "h3"
NAMES = st.sampled_from(["a", "b", "c"])
ZONES = st.sampled_from([None, "nova", "north", "south"])
TERMS = st.builds(ZoneRules, st.just("nova"), st.booleans())


class ZonesMachine(RuleBasedStateMachine):
    """Keeps {name: zone} and {name: hosts} beside the database; h3 has an instance."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        empty(database)
        serve(database, *HOSTS)
        seen = [an_instance("u1")]
        database.write(lambda c: instances.replace(c, LIVED_IN, LIVED_IN, seen))
        self.database = database
        self.zones: dict[str, str | None] = {}
        self.hosts: dict[str, set[str]] = {}

    def try_(self, order: Any, allowed: bool) -> bool:
        """Do an order; it is refused exactly if it is not allowed."""
        try:
            self.database.write(order)
        except OperationRefused:
            assert not allowed
            return False
        assert allowed
        return True

    def allowed(self, zones: Any, hosts: Any, terms: ZoneRules) -> bool:
        """Tell whether aggregates may have these zones and hosts instead of what they have."""
        for host in HOSTS:
            before = {self.zones[name] for name in self.zones if host in self.hosts[name]} - {None}
            after = {zones[name] for name in zones if host in hosts[name]} - {None}
            moves = (before or {"nova"}) != (after or {"nova"})
            if len(after) > 1 or (moves and host == LIVED_IN and not terms.with_instances):
                return False
        return True

    @rule(name=NAMES, zone=ZONES)
    def create(self, name: str, zone: str | None) -> None:
        properties = {"availability_zone": zone} if zone else {}
        order = lambda c: aggregate_operations.create(c, name, properties)  # noqa: E731
        if self.try_(order, name not in self.zones):
            self.zones[name], self.hosts[name] = zone, set()

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        allowed = name in self.hosts and not self.hosts[name]
        if self.try_(lambda c: aggregate_operations.delete(c, [name]), allowed):
            del self.zones[name], self.hosts[name]

    @rule(name=NAMES, zone=ZONES, terms=TERMS)
    def set_zone(self, name: str, zone: str | None, terms: ZoneRules) -> None:
        change = Change(properties={"availability_zone": zone} if zone else {})
        if zone is None:
            change = Change(without=["availability_zone"])
        after = self.zones | {name: zone}
        known = name in self.zones and (zone or self.zones[name])
        allowed = bool(known) and self.allowed(after, self.hosts, terms)
        if self.try_(lambda c: aggregate_operations.change(c, name, change, terms), allowed):
            self.zones = after

    @rule(name=NAMES, host=st.sampled_from(HOSTS), terms=TERMS, joins=st.booleans())
    def move_host(self, name: str, host: str, terms: ZoneRules, joins: bool) -> None:
        of_it = self.hosts.get(name, set())
        after = self.hosts | {name: of_it ^ {host}}
        allowed = name in self.hosts and joins == (host not in of_it)
        order = aggregate_operations.add_hosts if joins else aggregate_operations.remove_hosts
        allowed = allowed and self.allowed(self.zones, after, terms)
        if self.try_(lambda c: order(c, name, [host], terms), allowed):
            self.hosts = after

    @invariant()
    def the_database_has_what_the_model_has(self) -> None:
        records = self.database.read(aggregates.everything)
        assert {each.name: set(each.hosts) for each in records} == self.hosts
        assert {each.name: each.metadata.get("availability_zone") for each in records} == self.zones
        assert all(len(zones) < 2 for zones in aggregates.zones_by_host(records).values())


@pytest.mark.hypothesis
def test_no_history_puts_a_host_into_two_zones(database: Database) -> None:
    # The last connection to an SQLite file tidies up when it goes, which takes its time.
    with database.engine.connect():
        run_state_machine_as_test(lambda: ZonesMachine(database), settings=HISTORIES)

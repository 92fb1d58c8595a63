# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Operators who change zones and switch hosts without a pause, and write down what came of it.

Each has hosts of its own, so that what it orders is all that happens to them.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count, cycle
from pathlib import Path
from typing import Any, Self, TextIO

import sqlalchemy as sa

from benchmarks.orders import DONE, ENABLED, REFUSED, UNKNOWN, ZONE
from benchmarks.storm.cloud import Cloud
from inventory import aggregates, services
from inventory.audit_log import Actor, acting
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import open_database
from inventory.errors import OperationRefused
from inventory.operations import aggregate_operations, service_operations
from inventory.operations.aggregate_operations import ZoneRules
from tests.databases import a_conf

# Each is an aggregate, too. A host that is in none of them is in the zone "nova".
OUTSIDE = "nova"
NAMES = ("east", "west")
# Of each. What comes of an order is seen while a host is left alone: until the others had theirs.
HOSTS = 20
# Seconds after which an operator tries again whose database was not available.
PAUSE = 0.2
Work = Callable[[sa.Connection], Any]


class Operators:
    """Several operators, each at a database of its own, at work inside a `with` block."""

    def __init__(self, cloud: Cloud, directory: Path) -> None:
        urls = cloud.operators_urls
        names = iter(cloud.fleet.names)
        self._stopped = threading.Event()
        self._operators = [
            Operator(url, [next(names) for _ in range(HOSTS)], directory / f"operator{n}.log")
            for n, url in enumerate(urls, 1)
        ]

    @property
    def logs(self) -> list[Path]:
        """What they wrote."""
        return [each.log for each in self._operators]

    def __enter__(self) -> Self:
        self._operators[0].create_aggregates()
        self._threads = [
            threading.Thread(target=each.work, args=(self._stopped,), daemon=True)
            for each in self._operators
        ]
        for each in self._operators:
            each.look()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for each in self._threads:
            each.join()
        for operator in self._operators:
            operator.close()


class Operator:
    """Moves its hosts from zone to zone, over and over, and disables each for a while.

    An order is given in spite of instances where it was refused because of them.
    """

    def __init__(self, url: str, hosts: Sequence[str], log: Path) -> None:
        self._hosts, self.log = hosts, log
        # Of all rounds on one database: each has a directory.
        self._name, self._numbers = f"{log.parent.name} {log.stem}", count(1)
        self._database = open_database(a_conf(connection=url))
        self._log: TextIO = log.open("w")

    def create_aggregates(self) -> None:
        """Create the zones, unless they are there."""

        def create(connection: sa.Connection) -> None:
            there = {each.name for each in aggregates.everything(connection)}
            for name in sorted({*NAMES} - there):
                aggregate_operations.create(connection, name, {"availability_zone": name})

        self._database.write(create)

    def look(self) -> None:
        """Write down how the hosts are before anybody does anything."""
        zones = aggregates.zones_by_host(self._database.read(aggregates.everything))
        off = self._database.read(_disabled)
        for host in self._hosts:
            (zone,) = zones.get(host) or {OUTSIDE}
            self._note(host, ZONE, zone, began=0.0, at=0.0, outcome=DONE)
            self._note(host, ENABLED, host not in off, began=0.0, at=0.0, outcome=DONE)

    def work(self, stopped: threading.Event) -> None:
        """Give orders until told to stop."""
        for round_ in cycle(NAMES):
            for host in self._hosts:
                for step in (self._leave, self._join, self._switch):
                    if stopped.is_set():
                        return
                    if step(host, round_) == UNKNOWN:
                        stopped.wait(PAUSE)

    def close(self) -> None:
        self._database.close()
        self._log.close()

    def _leave(self, host: str, zone: str) -> str:
        other = next(each for each in NAMES if each != zone)
        return self._move(
            host,
            OUTSIDE,
            lambda c, zones: aggregate_operations.remove_hosts(c, other, [host], zones),
        )

    def _join(self, host: str, zone: str) -> str:
        return self._move(
            host, zone, lambda c, zones: aggregate_operations.add_hosts(c, zone, [host], zones)
        )

    def _switch(self, host: str, _zone: str) -> str:
        """Disable a host and enable it again."""
        off = self._give(
            host, ENABLED, False, lambda c: service_operations.disable(c, [host], "storm")
        )
        on = self._give(host, ENABLED, True, lambda c: service_operations.enable(c, [host]))
        return UNKNOWN if UNKNOWN in (off, on) else DONE

    def _move(self, host: str, zone: str, order: Callable[[sa.Connection, ZoneRules], Any]) -> str:
        polite = self._give(host, ZONE, zone, lambda c: order(c, ZoneRules(OUTSIDE)), forced=False)
        if polite != REFUSED:
            return polite
        return self._give(host, ZONE, zone, lambda c: order(c, ZoneRules(OUTSIDE, True)))

    def _give(self, host: str, what: str, value: Any, work: Work, forced: bool = True) -> str:
        """Give an order and write down what came of it; return its outcome."""
        began, outcome, reason = time.time(), DONE, ""
        actor = Actor(self._name, "storm", f"order {next(self._numbers)}")
        try:
            # As commands do: an order knows its own work again where an answer was lost.
            self._database.write_once(lambda each: work(acting(each, actor)))
        except OperationRefused as error:
            outcome, reason = REFUSED, str(error)
        except DatabaseUnavailable as error:
            outcome, reason = UNKNOWN, str(error)
        outcomes = {"outcome": outcome, "reason": reason, "forced": forced}
        outcomes |= {"operator": actor.operator, "command": actor.command}
        self._note(host, what, value, began=began, at=time.time(), **outcomes)
        return outcome

    def _note(self, host: str, what: str, value: Any, **more: Any) -> None:
        line = {"event": "ordered", "host": host, "what": what, "value": value, **more}
        self._log.write(json.dumps(line) + "\n")


def _disabled(connection: sa.Connection) -> set[str]:
    return {row.host for row in services.all_live(connection) if row.disabled}

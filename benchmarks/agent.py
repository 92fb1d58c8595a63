# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an audit costs beside libvirt's own bulk call, and how many rows it writes.

A private libvirtd has many defined guests, some of them running, each with the metadata that Nova
gives its guests. The agent's own parts audit it into a private MariaDB.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from conf import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

import sqlalchemy as sa  # noqa: E402

from compute_agent.resource_tracker import ResourceTracker  # noqa: E402
from compute_agent.virt.libvirt.connection import library  # noqa: E402
from compute_agent.virt.libvirt.driver import LibvirtDriver  # noqa: E402
from inventory import compute_nodes  # noqa: E402
from inventory.engine import Database  # noqa: E402
from tests.fixtures import agent  # noqa: E402
from tests.fixtures.daemons import guests  # noqa: E402
from tests.fixtures.daemons.libvirtd import Libvirtd  # noqa: E402
from tests.fixtures.daemons.mariadb import MariaDB  # noqa: E402

RUNNING = 5
LIMIT = 1.5
METADATA = """
  <metadata>
    <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:name>server</nova:name>
      <nova:flavor name="m1.tiny">
        <nova:memory>64</nova:memory><nova:disk>1</nova:disk><nova:swap>0</nova:swap>
        <nova:ephemeral>0</nova:ephemeral><nova:vcpus>1</nova:vcpus>
      </nova:flavor>
      <nova:owner><nova:project uuid="{project}">p</nova:project></nova:owner>
      <nova:root type="image" uuid="{project}"/>
    </nova:instance>
  </metadata>
</domain>"""


@dataclass(frozen=True, slots=True)
class Audits:
    """Milliseconds, medians but for the first; rows are those that audits have written."""

    guests: int
    bulk_ms: float
    libvirt_ms: float
    audit_ms: float
    first_ms: float
    one_changed_ms: float
    rows_unchanged: int
    rows_one_changed: int

    @property
    def ratio(self) -> float:
        """What libvirt costs in an audit, beside the bare bulk call."""
        return self.libvirt_ms / self.bulk_ms


class Writes:
    """Counts the statements that change rows."""

    def __init__(self, database: Database) -> None:
        self.count = 0
        sa.event.listen(database.engine, "after_cursor_execute", self._executed)

    def _executed(self, *event: Any) -> None:
        _, cursor, statement, *_ = event
        if statement.split(None, 1)[0].upper() in ("INSERT", "UPDATE", "DELETE"):
            self.count += max(cursor.rowcount, 0)


def measure(number: int, calls: int) -> Audits:
    """Return the figures of a host with so many guests."""
    with _host(number) as (link, uri, conf, database):
        driver = LibvirtDriver(conf)
        tracker = ResourceTracker(conf, database, driver)
        try:
            return _measured(number, calls, _Parts(link, driver, tracker, database, uri))
        finally:
            driver.close()


@dataclass(frozen=True, slots=True)
class _Parts:
    link: Any
    driver: LibvirtDriver
    tracker: ResourceTracker
    database: Database
    uri: str


def _measured(number: int, calls: int, parts: _Parts) -> Audits:
    state = library().VIR_DOMAIN_STATS_STATE

    def audit() -> None:
        parts.tracker.audit({"alpha": 1})

    def ask() -> None:
        (node,) = parts.driver.nodes()
        parts.driver.facts(node)
        parts.driver.guests(node)

    (first,) = _times([audit], 1)
    # Events of the guests' own starts may be on their way.
    audit()
    writes = Writes(parts.database)
    # By turns, so that a slow moment of the machine is one for all of them.
    bulk, libvirt, whole = _times(
        [lambda: parts.link.getAllDomainStats(state, 0), ask, audit], calls
    )
    rows = writes.count
    writes.count = 0
    with guests.connected(parts.uri) as connection:
        domain = connection.lookupByName("guest-0")
        changed = []
        for step in ("suspend", "resume") * 2:
            getattr(domain, step)()
            changed += _times([audit], 1)
    (row,) = parts.database.read(compute_nodes.all_live)
    if row.running_vms != number:
        raise RuntimeError(f"the row counts {row.running_vms} of {number} guests")
    return Audits(
        guests=number,
        bulk_ms=bulk,
        libvirt_ms=libvirt,
        audit_ms=whole,
        first_ms=first,
        one_changed_ms=median(changed),
        rows_unchanged=rows,
        rows_one_changed=writes.count // len(changed),
    )


@contextmanager
def _host(number: int) -> Iterator[tuple[Any, str, Any, Database]]:
    """Yield a host with so many guests: a bare connection, its URI, options and a database."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="berthmaster-bench-")))
        server = stack.enter_context(MariaDB(directory / "mariadb"))
        libvirtd = stack.enter_context(Libvirtd(directory / "libvirtd"))
        connection = stack.enter_context(guests.connected(libvirtd.uri))
        _define(connection, number)
        stack.callback(_end, connection)
        conf = agent.options(
            directory,
            libvirt={"connection_uri": libvirtd.uri},
            database={"connection": server.create_database("bench")},
        )
        (directory / "compute_id").write_text(str(uuid4()))
        database = agent.database(conf)
        stack.callback(database.close)
        link = library().openReadOnly(libvirtd.uri)
        stack.callback(link.close)
        yield link, libvirtd.uri, conf, database


def _define(connection: Any, number: int) -> None:
    for each in range(number):
        xml = guests.XML.format(name=f"guest-{each}", uuid=uuid4(), vcpus=1, memory_mib=64)
        xml = xml.strip().removesuffix("</domain>") + METADATA.format(project=uuid4())
        domain = connection.defineXML(xml)
        if each < RUNNING:
            domain.create()


def _end(connection: Any) -> None:
    for domain in connection.listAllDomains(1):
        domain.destroy()


def _times(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return the medians of the milliseconds that each of some calls takes, made by turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, taken in zip(calls, times, strict=True):
            began = time.perf_counter()
            call()
            taken.append(1000 * (time.perf_counter() - began))
    return [median(each) for each in times]


def report(found: Audits) -> str:
    """Return the figures as lines."""
    verdict = "" if found.ratio <= LIMIT else f"   above {LIMIT}"
    return "\n".join(
        [
            f"{found.guests} guests, {RUNNING} of them running; medians in ms",
            f"bare bulk call                     {found.bulk_ms:9.2f}",
            f"libvirt's part of an audit         {found.libvirt_ms:9.2f}"
            f"   {found.ratio:.2f} x{verdict}",
            f"audit, nothing changed             {found.audit_ms:9.2f}"
            f"   {found.audit_ms / found.bulk_ms:.2f} x, {found.rows_unchanged} rows written",
            f"audit, one guest changed           {found.one_changed_ms:9.2f}"
            f"   {found.rows_one_changed} rows written",
            f"first audit                        {found.first_ms:9.2f}",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--guests", type=int, default=1000, metavar="N")
    parser.add_argument("--calls", type=int, default=31, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="Write the figures there as well.")
    asked = parser.parse_args()
    found = measure(asked.guests, asked.calls)
    print(report(found))
    if asked.json:
        Path(asked.json).write_text(json.dumps(asdict(found), indent=1))


if __name__ == "__main__":
    main()

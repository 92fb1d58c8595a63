# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an audit costs beside libvirt's own bulk call, and how many rows it writes.

A private libvirtd has many defined guests, some of them running, each with the metadata that Nova
gives its guests. The agent's own parts audit it into a private MariaDB.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from conf.daemon import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

import sqlalchemy as sa  # noqa: E402

from benchmarks import program  # noqa: E402
from benchmarks.figures import LIBVIRT, OURS, Figure, ratios  # noqa: E402
from compute_agent.audit.tracker import ResourceTracker  # noqa: E402
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
ROWS = "rows_written"
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


class Writes:
    """Counts the statements that change rows."""

    def __init__(self, database: Database) -> None:
        self.count = 0
        sa.event.listen(database.engine, "after_cursor_execute", self._executed)

    def _executed(self, *event: Any) -> None:
        _, cursor, statement, *_ = event
        if statement.split(None, 1)[0].upper() in ("INSERT", "UPDATE", "DELETE"):
            self.count += max(cursor.rowcount, 0)


@dataclass(frozen=True, slots=True)
class Host:
    """A host with guests: the agent's parts, a bare connection, and one that changes guests."""

    guests: int
    driver: LibvirtDriver
    tracker: ResourceTracker
    database: Database
    bare: Any
    connection: Any

    def audit(self) -> None:
        """Audit as the agent does."""
        self.tracker.audit({"alpha": 1})

    def ask(self) -> None:
        """Ask libvirt for what an audit asks."""
        (node,) = self.driver.nodes()
        self.driver.facts(node)
        self.driver.guests(node)

    def bulk(self) -> None:
        """Ask libvirt for the states of all guests, and do nothing with the answer."""
        self.bare.getAllDomainStats(library().VIR_DOMAIN_STATS_STATE, 0)


def measure(asked: argparse.Namespace) -> list[Figure]:
    """Return what audits of a host cost."""
    guests, calls = (100, 5) if asked.quick else (asked.guests, asked.calls)
    with _host(guests) as host:
        return list(_audits(host, calls))


def _audits(host: Host, calls: int) -> Iterator[Figure]:
    case = {"guests": host.guests}
    (first,) = _times([host.audit], 1)
    yield Figure("audit, first", OURS, "ms", first, case)
    # Events of the guests' own starts may be on their way.
    host.audit()
    writes = Writes(host.database)
    # By turns, so that a slow moment of the machine is one for all of them.
    bulk, part, whole = _times([host.bulk, host.ask, host.audit], calls)
    yield Figure("audit", OURS, "ms", whole, case, {ROWS: writes.count})
    yield Figure("audit", LIBVIRT, "ms", bulk, case)
    yield Figure("audit, libvirt's part", OURS, "ms", part, case)
    yield Figure("audit, libvirt's part", LIBVIRT, "ms", bulk, case)
    writes.count = 0
    domain, changed = host.connection.lookupByName("guest-0"), []
    for step in ("suspend", "resume") * 2:
        getattr(domain, step)()
        changed += _times([host.audit], 1)[0]
    rows = writes.count // len(changed)
    yield Figure("audit, one guest changed", OURS, "ms", changed, case, {ROWS: rows})
    (row,) = host.database.read(compute_nodes.all_live)
    if row.running_vms != host.guests:
        raise RuntimeError(f"the row counts {row.running_vms} of {host.guests} guests")


@contextmanager
def _host(number: int) -> Iterator[Host]:
    """Yield a host with so many guests."""
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
        bare = library().openReadOnly(libvirtd.uri)
        stack.callback(bare.close)
        driver = LibvirtDriver(conf)
        stack.callback(driver.close)
        tracker = ResourceTracker(conf, database, driver)
        yield Host(number, driver, tracker, database, bare, connection)


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


def _times(calls: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    """Return the milliseconds that each of some calls takes, made by turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, taken in zip(calls, times, strict=True):
            began = time.perf_counter()
            call()
            taken.append(1000 * (time.perf_counter() - began))
    return times


def report(found: Sequence[Figure]) -> str:
    """Return the figures as lines."""
    beside = {each.what: each for each in ratios(found)}
    lines = [f"{found[0].case['guests']} guests, {RUNNING} of them running; medians in ms"]
    for each in found:
        name = "libvirt's bare bulk call" if each.who == LIBVIRT else each.what
        notes = [f"{each.facts[ROWS]} rows written"] if ROWS in each.facts else []
        if each.who == OURS and each.what in beside:
            ratio = 1 / beside[each.what].median
            notes.insert(
                0, f"{ratio:.2f} x the bulk call{'' if ratio <= LIMIT else f', above {LIMIT}'}"
            )
        lines.append(f"{name:26} {each.median:9.2f}   {', '.join(notes)}".rstrip())
    return "\n".join(dict.fromkeys(lines))


def main() -> None:
    options = program.parser(__doc__)
    options.add_argument("--guests", type=int, default=1000, metavar="N")
    options.add_argument("--calls", type=int, default=31, metavar="N")
    program.run(options, measure, report)


if __name__ == "__main__":
    main()

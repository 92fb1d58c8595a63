# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What it costs a scheduler to keep its view of all hosts.

A private MariaDB with the rows of a fleet, each host with five instances. Read are all rows, and
then what has changed: nothing, one host in a hundred, every host. Beside it, bare PyMySQL sends the
same statements as a complete reading and makes nothing of the rows. Times are those of the clock,
with the server's; the processor's time of this process alone is reported as well.
"""

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

from benchmarks import inventory_rows, program
from benchmarks.figures import FLOOR, OURS, Figure, find, plain
from benchmarks.fleet import INSTANCES_PER_HOST
from inventory import migrations
from inventory.engine import Database
from scheduler.host_cache import refresh_queries
from scheduler.host_cache.cache import HostCache
from tests.databases import open_at
from tests.fixtures.daemons.mariadb import MariaDB

FULL, NOTHING, SOME, ALL = (
    "view, full load",
    "view, nothing changed",
    "view, 1 % changed",
    "view, all changed",
)
MEMORY = "memory per host"
SIZES, QUICK = (1_000, 10_000), (1_000,)
MOST_TRACED = 1_000
TURNS = {FULL: 3, NOTHING: 30, SOME: 5, ALL: 3}
# A fleet of which the server has all pages in memory, as one that is read all day has.
SERVER = ["--innodb-buffer-pool-size=512M"]
NEVER = 1e9
Work = Callable[[], object]
Turn = tuple[float, float]


@contextmanager
def stored(sizes: Sequence[int]) -> Iterator[Iterator[tuple[int, Database]]]:
    """Yield a database for each number of hosts, one after the other."""
    with ExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory(prefix="berthmaster-bench-"))
        server = stack.enter_context(MariaDB(Path(directory), SERVER))

        def each() -> Iterator[tuple[int, Database]]:
            for size in sizes:
                database = open_at(server.create_database(f"hosts{size}"))
                stack.callback(database.close)
                migrations.sync(database)
                inventory_rows.store(database, size)
                inventory_rows.age_nodes(database)
                yield size, database

        yield each()


def figures(database: Database, size: int, turns: dict[str, int]) -> Iterator[Figure]:
    """Yield what it costs to keep a view of a database with so many hosts."""
    case, about = {"hosts": size}, {"instances": size * INSTANCES_PER_HOST}
    ours, floor = [], []
    reread = _reading(database)
    # By turns, since the machine may have other things to do for a while.
    for _ in range(turns[FULL]):
        gc.collect()
        ours.append(_timed(_view(database).refresh))
        floor.append(_timed(reread))
    yield _figure(FULL, OURS, ours, case, about)
    yield _figure(FULL, FLOOR, floor, case, about)
    view = _view(database)
    view.refresh()
    for what, every in ((NOTHING, 0), (SOME, 100), (ALL, 1)):
        # A first time to warm up.
        found = list(_followed(database, view, every, turns[what] + 1))
        yield _figure(what, OURS, found[1:], case, about)
    # It takes four times as long as a full load: of a large fleet the small one says enough.
    if size <= MOST_TRACED:
        facts = about | {"measured by": "tracemalloc, after a full load"}
        yield Figure(MEMORY, OURS, "kB", [_memory(database) / 1000 / size], case, facts)


def report(found: Sequence[Figure]) -> str:
    """Return the figures as a table."""
    rows = [f"{'':22} {'hosts':>7} {'ours':>9} {'least':>9} {'most':>9} {'processor':>10}   floor"]
    for each in (each for each in found if each.who == OURS):
        hosts = each.case["hosts"]
        cells = [plain(number) for number in (each.median, min(each.turns), max(each.turns))]
        row = f"{each.what:22} {hosts:7,} {cells[0]:>9} {cells[1]:>9} {cells[2]:>9}"
        row += f" {plain(each.facts.get('processor, ms', 0)):>10}"
        floor = find(found, each.what, FLOOR, hosts=hosts)
        if floor is not None:
            row += f"   {plain(floor.median)}, processor {plain(floor.facts['processor, ms'])}"
        rows.append(f"{row}   {each.unit}")
    return "\n".join(rows)


def _view(database: Database) -> HostCache:
    return HostCache(database, reload_interval=NEVER)


def _followed(database: Database, view: HostCache, every: int, turns: int) -> Iterator[Turn]:
    """Yield what it costs to follow, each time, what one host in so many has written."""
    gc.collect()
    for _ in range(turns):
        if every:
            inventory_rows.audit(database, every)
        yield _timed(view.refresh)
        if every:
            inventory_rows.age_nodes(database)


def _reading(database: Database) -> Work:
    """Return what sends the statements of a complete reading and takes the rows as they come."""
    sent: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT"):
            sent.append((statement, parameters))

    sa.event.listen(database.engine, "before_cursor_execute", note)
    database.read(refresh_queries.read_all)
    sa.event.remove(database.engine, "before_cursor_execute", note)

    def work(connection: sa.Connection) -> None:
        cursor = connection.connection.cursor()
        for statement, parameters in sent:
            cursor.execute(statement, parameters)
            cursor.fetchall()

    return lambda: database.read(work)


def _timed(work: Work) -> Turn:
    """Return the milliseconds of the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return 1000 * (time.perf_counter() - clock), 1000 * (time.process_time() - processor)


def _figure(
    what: str, who: str, turns: Sequence[Turn], case: dict[str, Any], about: dict[str, Any]
) -> Figure:
    facts = about | {"processor, ms": median(processor for _, processor in turns)}
    return Figure(what, who, "ms", [clock for clock, _ in turns], case, facts)


def _memory(database: Database) -> int:
    """Return the bytes that a view holds when it has been read."""
    gc.collect()
    tracemalloc.start()
    try:
        view = _view(database)
        view.refresh()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def _measured(asked: argparse.Namespace) -> list[Figure]:
    sizes = (asked.hosts,) if asked.hosts else QUICK if asked.quick else SIZES
    with stored(sizes) as databases:
        return [each for size, database in databases for each in figures(database, size, TURNS)]


def main() -> None:
    options = program.parser(__doc__)
    options.add_argument("--hosts", type=int, metavar="N", help=f"Not {SIZES} hosts, but so many.")
    program.run(options, _measured, report)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What it costs a scheduler to protect an instance, beside placing it without a standby.

A private MariaDB with the rows of a fleet in racks. One scheduler decodes requests, decides and
claims. A third of them are protected; for another third nothing in it knows of protection, which
says what that costs all others. Counted is the processor's time of the process. Other programs only
add to it, so what is compared is the fastest tenth of the turns: the longest of these.
"""

import argparse
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from random import Random
from statistics import quantiles
from typing import Any
from unittest import mock

from conf.daemon import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

from benchmarks import program, view  # noqa: E402
from benchmarks.claiming import Scheduler  # noqa: E402
from benchmarks.figures import OURS, Figure, plain  # noqa: E402
from inventory import aggregates, compute_nodes  # noqa: E402
from inventory.claims import claims  # noqa: E402
from inventory.claims.usage_update import LockedNodes  # noqa: E402
from inventory.engine import Database  # noqa: E402
from inventory.objects.aggregate import FAILURE_DOMAIN  # noqa: E402
from inventory.objects.standby import REQUIRED  # noqa: E402
from scheduler.select_destinations import loop  # noqa: E402

PLAIN, PROTECTED = "claim, not protected", "claim, protected"
UNAWARE = "claim, nothing known of protection"
SHARE, COST = "protected claim through another one", "claim where others may be protected"
HOSTS, RACKS = 1_000, 20
TURNS, FEWER_TURNS = 1_000, 24
WARM_UP = 20


@contextmanager
def unaware() -> Iterator[None]:
    """Let claims know nothing of protection, within the block."""

    def lock(
        connection: Any, ids: set[int], *_: object, uuids: Sequence[str] = ()
    ) -> tuple[None, LockedNodes]:
        return None, LockedNodes(connection, ids, uuids)

    with (
        mock.patch.object(loop, "protected", lambda request, *_: request),
        mock.patch.object(claims, "_lock", lock),
    ):
        yield


def figures(database: Database, size: int, turns: int) -> Iterator[Figure]:
    """Yield what claims cost with so many hosts."""
    hosts = [row.host for row in database.read(compute_nodes.all_live)]
    for number in range(RACKS):
        rack = f"rack{number}"
        of = {"name": rack, "hosts": hosts[number::RACKS], "metadata": {FAILURE_DOMAIN: rack}}
        database.write(partial(aggregates.create, **of))
    scheduler = Scheduler(database)
    found: dict[str, list[float]] = {PLAIN: [], PROTECTED: [], UNAWARE: []}
    for _ in range(WARM_UP):
        scheduler.claim(REQUIRED)
        scheduler.claim()
    gc.collect()
    # By turns, since the machine may have other things to do for a while; and in any order, since
    # a claim finds in the processor's caches what the one before has used.
    order = Random(size)
    for _ in range(turns):
        for what in order.sample([*found], len(found)):
            with unaware() if what == UNAWARE else nullcontext():
                found[what].append(scheduler.claim(REQUIRED if what == PROTECTED else None))
    case = {"hosts": size, "racks": RACKS}
    fast = {what: quantiles(each, n=10)[0] for what, each in found.items()}
    for what, each in found.items():
        yield Figure(what, OURS, "ms", each, case, {"fastest tenth": fast[what]})
    yield Figure(SHARE, OURS, "x", [fast[PROTECTED] / fast[PLAIN]], case)
    yield Figure(COST, OURS, "x", [fast[PLAIN] / fast[UNAWARE]], case)


def report(found: Sequence[Figure]) -> str:
    """Return the figures as lines."""
    return "\n".join(
        f"{each.what:36} {plain(each.facts.get('fastest tenth', each.median)):>7} {each.unit},"
        f" median {plain(each.median)}"
        for each in found
    )


def _measured(asked: argparse.Namespace) -> list[Figure]:
    turns = FEWER_TURNS if asked.quick else TURNS
    with view.stored([HOSTS]) as databases:
        return [each for size, database in databases for each in figures(database, size, turns)]


def main() -> None:
    program.run(program.parser(__doc__), _measured, report)


if __name__ == "__main__":
    main()

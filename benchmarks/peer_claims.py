# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What it costs a scheduler that another one has claimed, beside a claim of its own.

A private MariaDB with the rows of a fleet. One scheduler decodes requests, decides and claims, each
with two alternates; the host cache of another one takes in what is pushed, from the text of the
message on, with one claim in a message or several, as a busy scheduler sends them. Counted is the
processor's time of the process, without the broker's client on either side.
"""

import argparse
import gc
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from conf.daemon import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

from benchmarks import program, view  # noqa: E402
from benchmarks.claiming import Scheduler  # noqa: E402
from benchmarks.figures import OURS, Figure, plain  # noqa: E402
from inventory.claims.types import NodeChange  # noqa: E402
from inventory.engine import Database  # noqa: E402
from scheduler.api.tracking_endpoint import PushEndpoint  # noqa: E402
from scheduler.host_cache.cache import HostCache  # noqa: E402
from scheduler.wire import claim_messages  # noqa: E402

OWN, PEER, SHARE = "own claim", "claim of a peer", "claim of a peer through own"
HOSTS, FEWER_HOSTS = 10_000, 1_000
# How many claims a message has. Most often it is what was claimed within a tenth of a second.
BATCHES = (1, 8)
TURNS, FEWER_TURNS = 200, 24
WARM_UP = 20


class Peers:
    """A scheduler that claims, and the host cache of another one."""

    def __init__(self, database: Database) -> None:
        self.changes: list[NodeChange] = []
        self._scheduler = Scheduler(database, self.changes.extend)
        self._cache = HostCache(database, max_age=view.NEVER, reload_interval=view.NEVER)
        self._endpoint = PushEndpoint(self._cache)
        for _ in range(WARM_UP):
            self.claim()
        self.changes.clear()
        self._cache.refresh()

    def claim(self) -> float:
        """Answer a request; return the milliseconds of the processor."""
        return self._scheduler.claim()

    def push(self) -> tuple[float, int]:
        """Push what was claimed; return the milliseconds that taking it in takes, and the bytes."""
        text = json.dumps(claim_messages.encode(self.changes))
        self.changes.clear()
        began = time.process_time()
        arguments: dict[str, Any] = json.loads(text)
        self._endpoint.nodes_changed({}, agent="peer", **arguments)
        return 1000 * (time.process_time() - began), len(text)


def figures(database: Database, size: int, turns: int) -> Iterator[Figure]:
    """Yield what own claims and those of a peer cost with so many hosts."""
    peers = Peers(database)
    for batch in BATCHES:
        gc.collect()
        own, pushed, sizes = [], [], []
        for _ in range(turns // batch):
            own += [peers.claim() for _ in range(batch)]
            took, length = peers.push()
            pushed.append(took / batch)
            sizes.append(length / batch)
        case = {"hosts": size, "claims in a message": batch}
        facts = {"bytes": sum(sizes) / len(sizes)}
        mine, other = Figure(OWN, OURS, "ms", own, case), Figure(PEER, OURS, "ms", pushed, case)
        yield mine
        yield Figure(PEER, OURS, "ms", pushed, case, facts)
        yield Figure(SHARE, OURS, "x", [other.median / mine.median], case)


def report(found: Sequence[Figure]) -> str:
    """Return the figures as lines."""
    return "\n".join(
        f"{each.what:28} {each.case['hosts']:7,} hosts, {each.case['claims in a message']} in a"
        f" message   {plain(each.median):>7} {each.unit}"
        for each in found
    )


def _measured(asked: argparse.Namespace) -> list[Figure]:
    size, turns = (FEWER_HOSTS, FEWER_TURNS) if asked.quick else (HOSTS, TURNS)
    with view.stored([size]) as databases:
        return [each for size, database in databases for each in figures(database, size, turns)]


def main() -> None:
    program.run(program.parser(__doc__), _measured, report)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where the time of a scheduler goes, as tables for people."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.endtoend import calls, profiled, stages
from benchmarks.endtoend.callers import Crowd, OneCaller
from benchmarks.endtoend.ground import Ground, Serving
from scheduler.api.scheduler_endpoint import TOPIC

CALLERS = 32
SECONDS = 4.0
# Seconds after which all that was spent has been written.
UNTIL_WRITTEN = 2 * profiled.EVERY + 0.1
ABOUT = """\
What a request costs one scheduler process (threads, one worker), in milliseconds: how long it was
in a stage, and for how much of that the processor was at work for it. The difference is waiting,
for the database, the broker, a lock or the interpreter. Shares are of all the work of the process,
and stages do not count what other stages in them count. Watching itself costs a few percent.
"""


def write(path: Path, ground: Ground, hosts: int) -> None:
    """Write the tables of schedulers with and without claims, with one caller and with many."""
    deployment = ground.deployment(hosts)
    blocks = [ABOUT]
    for claims in (False, True):
        serving = Serving(claims=claims)
        config = deployment.write_config(f"profiled{claims}", serving.options)
        written = ground.directory / f"stages{claims}.json"
        process = ground.program(
            profiled.__name__, f"profiled{claims}", serving.backend, config, stages=written
        )
        for callers, table in _tables(ground, written):
            kind = "claims" if claims else "no claims"
            blocks.append(f"{hosts} hosts, {kind}, {callers} callers at a time\n\n{table}\n")
        process.stop(15.0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(blocks))
    print(path.read_text())


def _tables(ground: Ground, written: Path) -> Iterator[tuple[int, str]]:
    caller = OneCaller(ground.url)
    ask, asked = caller.asker(TOPIC), calls.plain(1)
    for _ in range(50):
        ask(next(asked))
    before, done, ends = _spent(written), 0, time.monotonic() + SECONDS
    while time.monotonic() < ends:
        ask(next(asked))
        done += 1
    yield 1, _table(before, _spent(written), done)
    caller.close()
    before = _spent(written)
    load = Crowd(ground.url, TOPIC, asked).run(CALLERS, 1.0, 1, SECONDS)
    yield CALLERS, _table(before, _spent(written), load.calls)


def _table(before: dict[str, Any], after: dict[str, Any], requests: int) -> str:
    spent = stages.between(before["spent"], after["spent"])
    return stages.table(spent, requests, after["processor"] - before["processor"])


def _spent(written: Path) -> dict[str, Any]:
    time.sleep(UNTIL_WRITTEN)
    found: dict[str, Any] = json.loads(written.read_text())
    return found

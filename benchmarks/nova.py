# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova in its own environment and process, beside which benchmarks measure."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_ENVIRONMENT = ROOT / ".venv-nova"


class Peer:
    """A program of `benchmarks.peer` that answers lines of JSON with lines of JSON."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def tell(self, words: Sequence[Any]) -> None:
        """Send words that are not answered."""
        assert self._process.stdin is not None
        print(json.dumps(words), file=self._process.stdin, flush=True)

    def ask(self, *words: Any) -> Any:
        """Send words and return the answer."""
        assert self._process.stdout is not None
        self.tell(words)
        return json.loads(self._process.stdout.readline())


def refuse_absence() -> None:
    """End the program where there is no Nova to compare with."""
    if not (_ENVIRONMENT / ".installed").exists():
        sys.exit("There is no .venv-nova to compare with: run make peer")


@contextmanager
def a_peer(module: str) -> Iterator[Peer]:
    """Yield a program; it ends by the end of its input."""
    command = [str(_ENVIRONMENT / "bin" / "python"), "-W", "ignore", "-m", module]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Peer(process)


@contextmanager
def one_processor() -> Iterator[None]:
    """Keep to one of the processors: they are not all in the same mood."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)

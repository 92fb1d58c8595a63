# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which lines of the product histories reach: of claims, rounds, the claimer and the keeper."""

import ast
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from coverage import Coverage

OPTION = "--coverage"
FILES = [
    *("inventory/claims/*.py", "scheduler/claims/claimer.py"),
    *("scheduler/claims/claim_request.py", "scheduler/claims/protection.py"),
    *("scheduler/claims/standby_*.py", "scheduler/claims/release_queue.py"),
    "scheduler/select_destinations/loop.py",
]


class Measured:
    """Measures from now on; each process that is forked off saves what it has reached."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory()
        self._coverage = Coverage(
            data_file=f"{self._directory.name}/data",
            data_suffix=True,
            concurrency="greenlet",
            include=FILES,
            config_file=False,
        )
        self._coverage.start()

    def save(self) -> None:
        """Save what this process has reached."""
        self._coverage.stop()
        self._coverage.save()

    def report(self) -> None:
        """Print what all processes have reached, and the lines and functions that none has."""
        self._coverage.stop()
        self._coverage.combine([self._directory.name])
        self._coverage.report(show_missing=True, file=sys.stdout)
        for path in sorted(map(Path, self._coverage.get_data().measured_files())):
            _, statements, _, missing, _ = self._coverage.analysis2(str(path))
            if names := [*_unreached(ast.parse(path.read_text()), {*statements}, {*missing})]:
                print(f"never called in {path.relative_to(Path.cwd())}: {', '.join(names)}")


def _unreached(
    tree: ast.AST, statements: Collection[int], missing: Collection[int]
) -> Iterator[str]:
    """Yield the names of the functions and methods of which no line was reached."""
    for each in ast.iter_child_nodes(tree):
        if isinstance(each, ast.ClassDef):
            yield from (f"{each.name}.{name}" for name in _unreached(each, statements, missing))
        elif isinstance(each, ast.FunctionDef):
            last = each.end_lineno or each.lineno
            inside = {*range(each.body[0].lineno, last + 1)} & {*statements}
            if inside and inside <= {*missing}:
                yield each.name

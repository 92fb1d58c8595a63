# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""All benchmarks, one after the other, each as a process of its own, into one file.

The status is 1 when one of them has failed; the figures of the others are kept.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import document, machine, sizing, tables
from benchmarks.document import Document, Part, Unreadable
from benchmarks.figures import Figure
from benchmarks.nova import ROOT

PACKAGE = "benchmarks"
PYTHON = (sys.executable, "-W", "ignore::DeprecationWarning", "-m")
# In the order of their running, and whether a quick run has time for them.
PARTS = {
    "decisions": True,
    "wire": True,
    "plugins": True,
    "numa": True,
    "packing": True,
    "failover": True,
    "planning": True,
    "view": True,
    "peer_claims": False,
    "protected_claims": False,
    "endtoend": True,
    "startup": False,
    "storm": False,
    "agent": False,
    "pushes": False,
    "placement": False,
    "mirror": False,
    "standby_keeping": False,
}
# What takes longer than this hangs. Seconds.
PATIENCE = 600


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    found = Document(_now(), asked.quick, machine.machine(), machine.versions())
    path = asked.results / ("quick.json" if asked.quick else "latest.json")
    if asked.only:
        found.parts = _kept(path, found)
    names = asked.only or [each for each, quick in PARTS.items() if quick or not asked.quick]
    for name in names:
        print(f"\n=== {name}", flush=True)
        part = found.parts[name] = measured(name, asked.quick, found.versions["Berthmaster"] or "")
        print(f"=== {name}: {part.seconds:.0f} s, {part.failed or 'done'}", flush=True)
    found.parts = {name: found.parts[name] for name in PARTS if name in found.parts}
    found.write(path)
    document.replace(path.with_suffix(".rst"), tables.report(Document.read(path)))
    document.replace(path.with_suffix(".sizing.rst"), sizing.report(Document.read(path)))
    failed = [name for name in names if found.parts[name].failed]
    print(f"\n{path}: {len(found.figures)} figures; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def measured(name: str, quick: bool, our: str) -> Part:
    """Return what a benchmark finds; what it has found before it failed is kept."""
    when, began = _now(), time.monotonic()
    with TemporaryDirectory(prefix="berthmaster-bench-") as directory:
        figures = Path(directory) / "figures.json"
        command = [*PYTHON, f"{PACKAGE}.{name}", "--json", str(figures)]
        failed = _failed([*command, "--quick"] if quick else command)
        try:
            found = [Figure.from_dict(each) for each in json.loads(figures.read_text())]
        except (OSError, ValueError, TypeError, LookupError) as error:
            found, failed = [], failed or f"it has written no figures: {error!r}"
    return Part(when, our, round(time.monotonic() - began, 1), failed, found)


def _failed(command: Sequence[str]) -> str | None:
    """Run a program whose output everybody sees; return why it failed, if it did."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not done after {PATIENCE} s"
    print(done.stderr, end="", file=sys.stderr, flush=True)
    if not done.returncode:
        return None
    last = [line.strip() for line in done.stderr.splitlines() if line.strip()][-1:]
    return ": ".join([f"status {done.returncode}", *last])


def _kept(path: Path, new: Document) -> dict[str, Part]:
    """Return the parts that a file has, as far as they can stand beside new ones."""
    try:
        old = Document.read(path)
    except Unreadable:
        return {}
    if old.machine != new.machine:
        print(f"{path} is begun anew: what it has was measured on another machine")
        return {}
    return old.parts


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    found.add_argument("--quick", action="store_true", help="A look in less than a minute.")
    found.add_argument(
        "--only", nargs="+", choices=PARTS, metavar="PART",
        help="Measure only these again and keep the others' figures: " + ", ".join(PARTS) + ".",
    )  # fmt: skip
    found.add_argument(
        "--results", type=Path, default=document.RESULTS, metavar="DIR",
        help="Where latest.json (quick.json) and its tables in latest.rst are kept.",
    )  # fmt: skip
    return found


if __name__ == "__main__":
    sys.exit(main())

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The processor time of each command: python -m benchmarks.commands [--before TREE].

Each is run as a process of its own on a SQLite database with 20 hosts, and the median of several
runs is written as a table for the documentation. TREE is a copy of an older release to compare; a
command that it does not have is new.
"""

import argparse
import configparser
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import machine
from benchmarks.nova import ROOT
from benchmarks.tables import HEADER, table
from inventory.errors import counted
from tests.databases import a_node, migrated, save, serve

RESULT = ROOT / "benchmarks" / "results" / "commands.rst"
HOSTS = 20
RUNS = 5
NEW = "new"
PROGRAM = "from scheduler.operators.cli.cmd import main; main()"
# Says what commands a tree has, in its own berthmaster.egg-info, and makes them known there.
SETUP = "import setuptools; setuptools.setup(script_args=['-q', 'egg_info'])"
# What is not called with --help only; others need a broker, files or a Nova cloud.
CALLED = {
    "aggregate list": [],
    "availability zone list": [],
    "capacity": ["--flavor=2,2048,20"],
    "claim list": [],
    "complete words": ["berthmaster\nhost\nshow"],
    "db version": [],
    "decision list": [],
    "failover simulate": ["h1"],
    "host describe": ["h1"],
    "host list": [],
    "host show": ["h1"],
    "hypervisor list": [],
    "hypervisor servers": ["h1"],
    "hypervisor show": ["h1"],
    "hypervisor stats": [],
    "plan balance": [],
    "plan consolidate": [],
    "plan drain": ["h1"],
    "plan make-room": ["--flavor=2,2048,20"],
    "plan repair": [],
    "server group list": [],
    "service list": [],
    "service show": ["h1"],
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all commands and write the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, metavar="TREE", help="An older release, to compare.")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"Runs of each (default: {RUNS}).")
    args = parser.parse_args(argv)
    trees = {tree: commands_of(tree) for tree in (args.before, ROOT) if tree}
    with TemporaryDirectory() as directory:
        config = _fleet(Path(directory))
        rows = [
            [
                " ".join(command).replace("\n", " "),
                *(
                    f"{_seconds(tree, config, command, args.runs):.2f}" if name in known else NEW
                    for tree, known in trees.items()
                ),
            ]
            for name, command in _called(trees[ROOT])
        ]
    heads = ["Command", *(["Before"] if args.before else []), "Now"]
    RESULT.write_text(_page(heads, rows, args.runs))
    print(f"wrote {RESULT}")
    return 0


def commands_of(tree: Path) -> set[str]:
    """Return the commands of a tree, the program alone among them as an empty text.

    Without entry points of its own, an older tree would look for the commands of the installed one.
    """
    if tree != ROOT:
        subprocess.run([sys.executable, "-c", SETUP], cwd=tree, check=True)
    setup = configparser.ConfigParser()
    setup.read(tree / "setup.cfg", encoding="utf-8")
    lines = setup["options.entry_points"]["berthmaster.cli"].split("\n")
    return {line.partition("=")[0].strip().replace("_", " ") for line in lines}


def _called(names: Collection[str]) -> list[tuple[str, list[str]]]:
    """Return the program's own options and each command, with arguments or with --help."""
    called = [(name, [*name.split(), *CALLED.get(name, ["--help"])]) for name in sorted(names)]
    return [("", ["--version"]), *called]


def _fleet(directory: Path) -> Path:
    """Return the configuration of a database with hosts."""
    names = [f"h{number}" for number in range(HOSTS)]
    with closing(migrated(directory)) as database:
        save(database, *map(a_node, names))
        serve(database, *names)
    config = directory / "berthmaster.conf"
    url = f"sqlite:///{directory}/inventory.sqlite"
    config.write_text(f"[DEFAULT]\nstate_path = {directory}\n[database]\nconnection = {url}\n")
    return config


def _seconds(tree: Path, config: Path, command: Sequence[str], runs: int) -> float:
    """Return the median of the processor time, of user and system, that a command takes."""
    options = [] if command[0].startswith("-") else [f"--config-file={config}"]
    line = [sys.executable, "-c", PROGRAM, *options, *command]
    return statistics.median(_once(line, tree) for _ in range(runs))


def _once(line: Sequence[str], tree: Path) -> float:
    # An installed release has its bytecode: nobody waits for the compiler.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        line, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Of a plan it says whether its goal is reached.
    if done.stderr:
        raise SystemExit(f"{' '.join(line)}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _page(heads: Sequence[str], rows: Sequence[Sequence[str]], runs: int) -> str:
    here = machine.machine()
    return "\n".join(
        [
            HEADER.replace("benchmarks:", "benchmarks.commands:"),
            f"Seconds of processor, user and system, the median of {counted(runs, 'run')}, on a"
            f" SQLite database with {HOSTS} hosts: {here['cpu']}, {here['cores']} processors,"
            f" Python {sys.version.split()[0]}.\n",
            table(heads, rows),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

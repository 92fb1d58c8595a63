# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the programs of all benchmarks have in common: options, and where figures go."""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.figures import Figure

Measure = Callable[[argparse.Namespace], Sequence[Figure]]
Report = Callable[[Sequence[Figure]], str]


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return the options that every benchmark has."""
    found = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--quick", action="store_true", help="A look in a few seconds.")
    found.add_argument("--json", type=Path, metavar="FILE", help="Write the figures there as well.")
    return found


def run(options: argparse.ArgumentParser, measure: Measure, report: Report) -> Sequence[Figure]:
    """Measure as asked on the command line, print the report, and write the figures down."""
    asked = options.parse_args()
    found = measure(asked)
    print(report(found), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps([each.to_dict() for each in found], indent=1))
    return found

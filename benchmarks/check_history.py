# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Check a storm by what its callers and its operators wrote down and what is in the database.

Every violation is a line, and the status is 1 then. See benchmarks.history and benchmarks.orders
for the logs.
"""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import check_answers, check_log, check_orders, check_rows, history, orders
from benchmarks.history import REFUSED, Request, Size

RESERVED = "0,512,0"


def checked(
    logs: Sequence[Path],
    url: str,
    *,
    reserved: Size,
    after_leases: bool = False,
    calm: bool = False,
    placed: int | None = None,
) -> tuple[list[str], str]:
    """Return all violations, and a summary of what was looked at."""
    requests, ordered = history.read(logs), orders.read(logs)
    rows = check_rows.read(url)
    found = [
        *check_answers.violations(requests, reserved, calm, placed),
        *check_rows.violations(rows, requests, reserved, after_leases),
        *check_orders.violations(requests, ordered, rows.claims, calm),
        *check_log.violations(ordered, rows.entries),
    ]
    return found, summary(requests, rows)


def summary(requests: Sequence[Request], rows: check_rows.Rows) -> str:
    """Return in one line what was looked at."""
    placed = sum(1 for _ in history.last_places(requests))
    refused = sum(1 for each in requests if each.ended and each.ended.outcome == REFUSED)
    states = Counter(each.state for each in rows.claims)
    claims = ", ".join(f"{number} {state}" for state, number in sorted(states.items())) or "no"
    return (
        f"{len(requests)} requests in {sum(each.attempts for each in requests)} attempts:"
        f" {placed} instances placed, {refused} requests refused;"
        f" {claims} claims on {len(rows.nodes)} nodes"
    )


def shortened(violations: Sequence[str], most: int = 5) -> Iterator[str]:
    """Yield the first few of each kind, and how many more there are."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for each in violations:
        kinds[each.partition(":")[0]].append(each)
    for kind, lines in kinds.items():
        yield from lines[:most]
        if len(lines) > most:
            yield f"{kind}: and {len(lines) - most} more"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--database", required=True, metavar="URL", help="SQLAlchemy's URL.")
    parser.add_argument(
        "--reserved",
        default=RESERVED,
        metavar="VCPUS,MEMORY_MB,DISK_MB",
        help=f"What each node keeps for itself ({RESERVED}).",
    )
    parser.add_argument(
        "--after-leases", action="store_true", help="All leases are over: no claim may be left."
    )
    parser.add_argument(
        "--calm", action="store_true", help="Nothing was broken: every attempt has an answer."
    )
    parser.add_argument(
        "--placed", type=int, metavar="N", help="So many instances must be placed, not one less."
    )
    asked = parser.parse_args(arguments)
    found, summary = checked(
        asked.logs,
        asked.database,
        reserved=Size(*map(int, asked.reserved.split(","))),
        after_leases=asked.after_leases,
        calm=asked.calm,
        placed=asked.placed,
    )
    print("\n".join([*found, summary, f"{len(found)} violations"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

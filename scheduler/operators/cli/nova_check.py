# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that tells whether a Nova cloud is ready for our scheduler in place of its own."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any

from inventory.errors import counted
from scheduler.operators.cli.base import ReportCommand
from scheduler.operators.cli.terminal import progress
from scheduler.operators.nova_check import allocations, cloud
from scheduler.operators.nova_check.cloud import ERROR, WARNING, Finding


class NovaCheck(ReportCommand):
    """Check whether a Nova cloud is ready for our scheduler in place of its own.

    The command reads Nova's API database, the databases of Nova's cells, and Placement, and writes
    nothing. Each line says what was found in one part of the cloud, and what to do about it. The
    exit status is 0 if nothing is in the way of the switch, warnings apart, else 1.
    """

    def take_action(self, args: Any) -> int:
        found: list[Finding] = []
        checks = chain(cloud.check(self.conf), allocations.check(self.conf))
        while (each := self._next(checks)) is not None:
            found.append(each)
            # At once: a cell that does not answer may take a while.
            if args.formatter != "json":
                self.report(args, _lines(each), None)
                self.app.stdout.flush()
        counts = {state: sum(each.state == state for each in found) for state in (ERROR, WARNING)}
        document = {"ready": not counts[ERROR], "findings": [asdict(each) for each in found]}
        ready = "Not ready for the switch" if counts[ERROR] else "Ready for the switch"
        errors, warnings = counted(counts[ERROR], "error"), counted(counts[WARNING], "warning")
        self.report(args, [f"{ready}: {errors}, {warnings}."], document)
        return 1 if counts[ERROR] else 0

    def _next(self, checks: Iterator[Finding]) -> Finding | None:
        with progress(self.app, "checking the Nova cloud"):
            return next(checks, None)


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.state:<8} {finding.subject}: {finding.text}"
    if finding.cure:
        yield f"         -> {finding.cure}"

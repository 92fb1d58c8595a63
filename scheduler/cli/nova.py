# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that tells whether a Nova cloud is ready for our scheduler."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any

from scheduler.cli.base import ReportCommand
from scheduler.nova_check import allocations, cloud
from scheduler.nova_check.cloud import ERROR, WARNING, Finding, number


class NovaCheck(ReportCommand):
    """Check whether a Nova cloud is ready for our scheduler in place of its own.

    It reads Nova's API database, those of its cells, and Placement, and writes nothing. Each line
    says what was found of one part, and what to do about it. The exit status is 0 if nothing is in
    the way of the switch, warnings apart, else 1.
    """

    def take_action(self, args: Any) -> int:
        found: list[Finding] = []
        for each in chain(cloud.check(self.conf), allocations.check(self.conf)):
            found.append(each)
            # At once: a cell that does not answer may take a while.
            if args.formatter != "json":
                self.report(args, _lines(each), None)
        counts = {state: sum(each.state == state for each in found) for state in (ERROR, WARNING)}
        document = {"ready": not counts[ERROR], "findings": [asdict(each) for each in found]}
        self.report(args, [_summary(counts[ERROR], counts[WARNING])], document)
        return 1 if counts[ERROR] else 0


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.state:<8} {finding.subject}: {finding.text}"
    if finding.cure:
        yield f"         -> {finding.cure}"


def _summary(errors: int, warnings: int) -> str:
    ready = "Not ready for the switch" if errors else "Ready for the switch"
    return f"{ready}: {number(errors, 'error')}, {number(warnings, 'warning')}."

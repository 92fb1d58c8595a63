# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that says what another configuration would have decided."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from inventory import shadow_reports, stored_documents
from inventory.errors import NotFound, counted
from scheduler.operators.cli.base import ReportCommand, Table

# Seconds after which a shadow that writes nothing is not at work any more.
_STALE = 180
_COLUMNS = ("", "Schedulers", "Shadow")
_DIFFERENT = ("Decided At", "Request", "Hosts", "Hosts Of The Shadow")
_SHARES = {
    "vCPU %": ("used", "vcpus"),
    "Memory %": ("used", "memory"),
    "Disk %": ("used", "disk"),
    "Stranded Memory %": ("stranded", "memory"),
}
_COUNTS = {"Empty Hosts": "empty_hosts", "Drain Moves": "drain_moves"}


class ShadowReport(ReportCommand):
    """Show how the configuration of [shadow] config would have decided, and the fleet after its
    decisions.

    The report begins when the shadow began, with its scheduler. -f json shows the ten newest
    shadows.
    """

    def take_action(self, args: Any) -> None:
        rows = self.read(shadow_reports.listed)
        if not rows:
            raise NotFound(
                "no shadow has reported yet: set [shadow] config of a scheduler, and restart it"
            )
        documents = [
            {
                "config": row.config,
                "scheduler": row.scheduler,
                "began_at": row.began_at.isoformat(timespec="seconds"),
                "written_at": row.written_at.isoformat(timespec="seconds"),
                **(_document(row) or {}),
            }
            for row in rows
        ]
        age = datetime.now(UTC).replace(tzinfo=None) - rows[0].written_at
        sections = _sections(documents[0], age.total_seconds())
        self.report(args, sections, {"shadows": documents})


def _document(row: Any) -> dict[str, Any] | None:
    return stored_documents.read(
        lambda text: dict(json.loads(text)),
        row.document,
        f"Report {row.id} of the shadow {row.config} of scheduler {row.scheduler}",
        "the report is shown as if the shadow had not reported yet, until the shadow writes it"
        " again",
    )


def _sections(found: Mapping[str, Any], age: float) -> Iterator[str | Table]:
    yield f"{found['config']}, by scheduler {found['scheduler']} since {found['began_at']} UTC"
    if age > _STALE:
        yield f"The shadow is not at work: it wrote this report at {found['written_at']} UTC"
    if "requests" not in found:
        yield "The shadow has not reported yet"
        return
    requests = found["requests"]
    share = f" ({100 * found['same'] / requests:.1f} %)" if requests else ""
    have = "has" if found["same"] == 1 else "have"
    yield f"{found['same']} of {counted(requests, 'request')}{share} {have} the same hosts"
    for number, noun, which in (
        (found["moves"], "request", "about instances that were there before"),
        (found["unreadable"], "decision", "that another release has saved"),
    ):
        if number:
            are = "is" if number == 1 else "are"
            yield f"{counted(number, noun)} {which} {are} left out"
    rows: list[tuple[Any, ...]] = [("Refused", found["refused"], found["refused_by_shadow"])]
    fleets = found["real"], found["shadow"]
    for name, (kind, resource) in _SHARES.items():
        rows.append((name, *(f"{100 * each[kind][resource]:.1f}" for each in fleets)))
    rows += [(name, *(each[key] for each in fleets)) for name, key in _COUNTS.items()]
    yield Table("", _COLUMNS, rows)
    different = [[*_different(each)] for each in reversed(found["different"])]
    if different:
        yield Table(
            "Requests that were decided differently, the newest first", _DIFFERENT, different
        )


def _different(found: Mapping[str, Any]) -> Iterator[str]:
    yield found["decided_at"]
    yield found["request_id"] or ""
    for hosts in (found["hosts"], found["hosts_of_shadow"]):
        yield ", ".join(hosts) or "refused"

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Saved decisions made again for a page, one at a time: plug-ins read settings of the process."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from scheduler.analysis.explain import Extent, explain
from scheduler.history.saved_decision import SavedDecision, from_database
from scheduler.operators.decision_text import format_heading
from scheduler.operators.status_pages.errors import check_time, unknown
from scheduler.plugins import PluginError
from scheduler.wire.to_json import json_value

# Hosts of which a page says all, and near misses of a kind to look for.
MAX_VERDICTS = 500
_NEAR_MISSES = 5
_KEPT = 64
# Source.read().
Read = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Explained:
    """A decision and why it was made for one instance, as JSON has it; without it missing says why.

    index is the place of the instance in the request; same, whether it is decided so again.
    """

    heading: Sequence[str]
    index: int
    instances: Sequence[str | None]
    placements: Sequence[Mapping[str, Any]]
    steps: Sequence[Mapping[str, Any]]
    explanation: Mapping[str, Any] | None = None
    same: bool | None = None
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What to explain: an instance by its place, None for the one that matters; host is a name."""

    number: int
    index: int | None = None
    host: str | None = None


class Explainer:
    """Explains decisions; it remembers the last explanations, which never change.

    One thread at a time may ask. To read the hosts of a decision takes longest, so those of the
    last one stay: for its other instances and hosts, and for whoever asks again after TooLate.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Question, Explained] = OrderedDict()
        self._last: SavedDecision | None = None

    def explain(self, read: Read, row: Any, question: Question, until: float) -> Explained:
        """Return the explanation for a row that inventory.decisions.find() has returned.

        Raises DecisionIncomplete, TooLate and Unknown.
        """
        if question in self._known:
            self._known.move_to_end(question)
            return self._known[question]
        check_time(until)
        found = _explained(self._saved(read, row), question, until)
        if found.explanation is not None:
            self._known[question] = found
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return found

    def _saved(self, read: Read, row: Any) -> SavedDecision:
        """Return the decision of a row; raises DecisionIncomplete."""
        if self._last is None or self._last.number != row.id:
            # Two of them would take twice the memory.
            self._last = None
            self._last = read(from_database, row)
        return self._last


def _explained(saved: SavedDecision, question: Question, until: float) -> Explained:
    record, decision = saved.record, saved.record.decision
    uuids, shortage = record.request.instance_uuids, decision.shortage
    index = question.index
    if index is None:
        index = shortage.index if shortage else 0
    # Of a request without a host nothing was decided about the instances after the first such one.
    number = shortage.index + 1 if shortage else len(uuids)
    if index >= number:
        raise unknown("instance", f"{index + 1}", (), str)
    placed = decision.placements[index] if index < len(decision.placements) else None
    steps = placed.steps if placed else shortage.steps if shortage else ()
    common: dict[str, Any] = {
        "heading": format_heading(saved),
        "index": index,
        "instances": uuids[:number],
        "placements": json_value(decision.placements),
        "steps": json_value(steps),
    }
    if saved.hosts is None:
        why = f"the hosts of this decision are no longer known: {saved.lost}"
        return Explained(**common, missing=why)
    try:
        return Explained(**common, **_again(saved, index, question.host, until))
    except (PluginError, ValueError) as error:
        return Explained(
            **common, missing=f"the decision cannot be made again on this machine: {error}"
        )


def _again(saved: SavedDecision, index: int, host: str | None, until: float) -> dict[str, Any]:
    hosts = saved.table()
    if host is not None and not hosts.rows_of_host(host, any_case=True):
        names = (hosts.get(row, "host") for row in hosts.rows())
        raise unknown(
            "host in this decision", host, names, lambda name: f"?host={quote(name, safe='')}"
        )
    extent = Extent(
        only=None if host is None else [host],
        most=MAX_VERDICTS,
        near=_NEAR_MISSES if host is None else 0,
        pause=lambda: check_time(until),
    )
    with saved.deciding() as driver:
        same = saved.is_same(saved.again(driver))
        found = explain(hosts, saved.record.request, driver, index, extent)
    return {"same": same, "explanation": json_value(found)}

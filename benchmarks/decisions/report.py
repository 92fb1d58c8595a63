# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What was measured of decisions, as a table to read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.decisions import keeping
from benchmarks.figures import FLOOR, NOVA, OURS, Figure, Ratio, find

_SAME = {True: "yes", False: "no", None: ""}
HEAD = (
    f"{'hosts':>7} {'instances':>9}  {'':24} {'ours, ms':>9} {'least':>8} {'most':>8}"
    f" {'Nova, ms':>9} {'ratio':>7} {'same hosts':>10} {'numpy, ms':>9} {'ratio':>6}"
)


def report(figures: Sequence[Figure]) -> str:
    """Return the costs as a table, and below it how they grow."""
    decided = [each for each in figures if each.what == "decide"]
    ours = [each for each in decided if each.who == OURS]
    # The matrix first.
    ours.sort(key=lambda each: _described(each.case) != "")
    rows = [_row(each, {it.who: it for it in decided if it.case == each.case}) for each in ours]
    return "\n".join([HEAD, *rows, *_growth(figures), *_keeping(figures)])


def _row(ours: Figure, sides: Mapping[str, Figure]) -> str:
    case, nova, numpy = ours.case, sides.get(NOVA), sides.get(FLOOR)
    row = f"{case['hosts']:7} {case['instances']:9}  {_described(case):24} {ours.median:9.3f}"
    row += f" {min(ours.turns):8.3f} {max(ours.turns):8.3f}"
    if nova or numpy:
        row += f" {nova.median:9.1f} {nova.median / ours.median:7.0f}" if nova else " " * 18
        row += f" {_SAME[ours.facts.get('same_hosts')]:>10}"
    if numpy:
        row += f" {numpy.median:9.3f} {numpy.median / ours.median:6.2f}"
    return row


def _described(case: Mapping[str, Any]) -> str:
    """Return what makes a case another one than its hosts and instances do."""
    words = [each for each in ("stream", "fresh") if case.get(each)]
    if case.get("foreign_changes"):
        words.append(f"{case['flavors']} flavors, {case['foreign_changes']} changes")
    if case.get("weighing", "spread") != "spread":
        words.append(case["weighing"])
    if case.get("grouped"):
        words.append(f"{case['grouped']:.0%} {case.get('policy', 'anti-affinity')}")
    if case.get("aggregate_sets", 40) != 40:
        words.append(f"{case['aggregate_sets']} sets")
    if case.get("list"):
        words.append(f"{case['list']} list")
    return ", ".join(words)


def _growth(figures: Sequence[Figure]) -> Iterator[str]:
    for each in figures:
        facts, (value,) = each.facts, each.turns[:1]
        if each.unit == "exponent":
            yield f"{each.what}, {each.who}: {value:.2f} from {facts['from']} to {facts['to']}"
        elif each.what == "further instance":
            yield (
                f"{each.what}, {each.who}: {value:.3f} ms, {facts['of_first']:.3f} of the first"
                f" (request of {facts['instances']}, {each.case['hosts']} hosts)"
            )


def _keeping(figures: Sequence[Figure]) -> Iterator[str]:
    kept = find(figures, keeping.DECIDED, kept=True)
    plain = find(figures, keeping.DECIDED, kept=False)
    if kept is None or plain is None:
        return
    ratio, hosts = Ratio.of(kept, plain), kept.case["hosts"]
    low, high = ratio.quartiles
    yield (
        f"kept: {kept.median:.3f} ms, not kept: {plain.median:.3f} ms, {ratio.median:.3f} times as"
        f" much, half of the turns {low:.3f} to {high:.3f} ({hosts} hosts)"
    )
    for each in figures:
        if each.what in (keeping.AFTERWARDS, keeping.SIZE, keeping.FIRST):
            yield f"{each.what}: {each.median:.3f} {each.unit} ({hosts} hosts)"

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One decision: the request, the filters as a funnel, weights, reasons and near misses."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inventory.decisions import find
from scheduler.operators.decision_text import format_weight
from scheduler.operators.status_pages import decisions
from scheduler.operators.status_pages.errors import Unknown
from scheduler.operators.status_pages.explaining import Explained, Question
from scheduler.operators.status_pages.source import Source
from scheduler.operators.status_pages.view import Asked, View, query_link

# Decisions of one request or instance, and what is shown of lists.
_MAX_FOUND = 20
_BEST, _HOSTS, _PLACED, _GROUPS = 10, 3, 100, 10
# Units of a picture: the whole width of a bar, and the least that can be seen.
_WIDTH, _LEAST = 1000.0, 4.0
_COLORS = 8
Document = Mapping[str, Any]


def view(source: Source, asked: Asked) -> View:
    """Return the newest decision that the address names by number, request or instance."""
    rows = source.read(find, asked.item, _MAX_FOUND)
    if not rows:
        links = [("All decisions", "../decisions/")]
        text = (
            f"no decision is saved for {asked.item!r}. Decisions are saved for [decisions] max_age,"
            " up to max_number of them, unless [decisions] keep is off"
        )
        raise Unknown(text, links)
    row, place, host = rows[0], asked.number("instance"), asked.text("host")
    question = Question(row.id, place - 1 if place else None, host)
    found = source.explain(row, question, asked.until)
    facts = {
        "decision": decisions.document(row),
        "others": [each.id for each in rows[1:]],
        "heading": found.heading,
        "instance": found.index + 1,
        "instances": len(found.instances),
        "instance_uuid": found.instances[found.index] if found.instances else None,
        "placements": found.placements[:_PLACED],
        "steps": found.steps,
        "same": found.same,
        "missing": found.missing,
        "host": host,
        "explanation": found.explanation,
    }
    return View(f"Decision {row.id}", "decision.html", facts, _shown(found, place, host))


def _shown(found: Explained, place: int, host: str | None) -> dict[str, Any]:
    explanation = found.explanation or {}
    verdicts = explanation.get("verdicts", ())
    weighed = sorted((each for each in verdicts if each["weighed"]), key=lambda each: each["rank"])[
        :_BEST
    ]
    return {
        "funnel": [*_funnel(found.steps)],
        "weights": _weights(weighed),
        "reasons": _reasons(explanation) if explanation else [],
        "nearest": _nearest(explanation),
        "near_misses": Counter(each["text"] for each in explanation.get("near_misses", ())),
        "verdict": _verdict(verdicts, host) if host else None,
        "previous": query_link("", instance=found.index) if found.index else None,
        "following": query_link("", instance=found.index + 2)
        if found.index + 1 < len(found.instances)
        else None,
    }


def _funnel(steps: Sequence[Document]) -> Iterator[dict[str, Any]]:
    """Yield the filters with the widths of what is left and of what they refused."""
    most = max((each["before"] for each in steps), default=0) or 1
    for each in steps:
        left, before = (_length(each[name] / most) for name in ("after", "before"))
        refused = each["before"] - each["after"]
        yield {**each, "refused": refused, "left_width": left, "before_width": before}


def _length(share: float) -> float:
    return round(max(_LEAST, _WIDTH * share), 1) if share > 0 else 0.0


def _weights(best: Sequence[Document]) -> dict[str, Any]:
    """Return the weighers that tell hosts apart, and a bar for each host, piece by piece."""
    names = [*best[0]["weighed"]["shares"]] if best else []
    shares = [each["weighed"]["shares"] for each in best]
    used = [name for name in names if any(each.get(name) for each in shares)]
    up = max((sum(max(0.0, each.get(name) or 0.0) for name in used) for each in shares), default=0)
    down = min(
        (sum(min(0.0, each.get(name) or 0.0) for name in used) for each in shares), default=0
    )
    unit = _WIDTH / ((up - down) or 1.0)
    colors = {name: index % _COLORS for index, name in enumerate(used)}
    totals = Counter(format_weight(each["weighed"]["total"]) for each in best)
    first = format_weight(best[0]["weighed"]["total"]) if best else ""
    return {
        "weighers": colors,
        "left_out": [name for name in names if name not in used],
        "zero": round(-down * unit, 1),
        "tied": totals[first] if totals[first] > 1 else 0,
        "hosts": [
            {
                "rank": each["rank"],
                "host": each["host"],
                "node": each["nodename"],
                "chosen": each["chosen"],
                "total": format_weight(each["weighed"]["total"]),
                "pieces": [*_pieces(each["weighed"]["shares"], colors, unit, -down * unit)],
            }
            for each in best
        ],
    }


def _pieces(
    shares: Mapping[str, float | None], colors: Mapping[str, int], unit: float, zero: float
) -> Iterator[dict[str, Any]]:
    """Yield the pieces of a bar: positive shares to the right of zero, others to the left."""
    right = left = zero
    for name, color in colors.items():
        value = shares.get(name) or 0.0
        width = abs(value) * unit
        left -= width if value < 0 else 0.0
        start = left if value < 0 else right
        right += width if value > 0 else 0.0
        text = f"{name} {format_weight(value)}"
        yield {"x": round(start, 1), "width": round(width, 1), "color": color, "text": text}


def _reasons(explanation: Document) -> list[dict[str, Any]]:
    """Return for each filter how many hosts it refuses, and why: equal reasons once, counted.

    These are the hosts of all groups, of which there are more than verdicts.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    hosts: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for group in explanation["refused"]:
        for each in group["refusals"]:
            name, reason = each["filter"], each["reason"]
            counts[name][reason] += group["hosts"]
            hosts[name, reason] += group["first_hosts"]
    found = []
    for name, count in sorted(explanation["reasons"].items(), key=lambda each: -each[1]):
        shown: list[dict[str, Any]] = [
            {"reason": reason, "count": number, "hosts": hosts[name, reason][:_HOSTS]}
            for reason, number in counts[name].most_common()
        ]
        rest = count - sum(each["count"] for each in shown)
        found.append({"filter": name, "count": count, "reasons": shown, "rest": rest})
    return found


def _nearest(explanation: Document) -> list[Document]:
    """Return the groups with the nearest misses, then those that the fewest filters refuse."""
    misses = [each["host"] for each in explanation.get("near_misses", ())]

    def place(group: Document) -> int:
        hosts: list[str] = [*group["first_hosts"]]
        return min((misses + hosts).index(host) for host in hosts)

    return sorted(explanation.get("refused", ()), key=place)[:_GROUPS]


def _verdict(verdicts: Sequence[Document], host: str) -> Document | None:
    folded = host.casefold()
    found = (each for each in verdicts if each["host"].casefold() == folded)
    return next(found, None)

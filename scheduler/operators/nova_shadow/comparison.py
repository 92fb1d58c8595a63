# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Compare our decision about an instance with that of nova-scheduler, and say why they differ."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from inventory.errors import counted
from scheduler.analysis.explain import Explanation, Verdict

# Weights that differ by less are equal: two programs add them up in another order.
EQUAL = 1e-9


class Kind(StrEnum):
    SAME = "same"
    TIE = "tie"
    DRAWN = "drawn"
    WEIGHED = "weighed"
    FILTERED = "filtered"
    NO_HOST = "refused_here"
    NOVA_NO_HOST = "refused_by_nova"
    BOTH_REFUSED = "refused_by_both"
    UNKNOWN = "unknown"


# With these the two agree: Nova itself draws among hosts of equal weight, and among the best ones.
AGREEING = frozenset({Kind.SAME, Kind.TIE, Kind.DRAWN, Kind.BOTH_REFUSED})


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the decisions about one instance compare.

    host and nova_host are node names, None where there was none. decided_by has the filters or the
    weigher that made the difference.
    """

    kind: Kind
    text: str
    host: str | None = None
    nova_host: str | None = None
    decided_by: tuple[str, ...] = ()


def unknown(text: str, host: str | None = None) -> Comparison:
    return Comparison(Kind.UNKNOWN, text, host)


def compare(explanation: Explanation, nova_host: str | None) -> Comparison:
    """Compare a decision with the node that Nova chose, None if it refused.

    The explanation has to have the verdict about that node, if it is known here.
    """
    ours = explanation.chosen_node
    if nova_host is None:
        return _refused_by_nova(explanation)
    if ours == nova_host:
        return Comparison(Kind.SAME, f"both chose {ours}", ours, nova_host)
    verdict = next((each for each in explanation.verdicts if each.nodename == nova_host), None)
    kind = Kind.FILTERED if ours else Kind.NO_HOST
    if verdict is None:
        known = counted(explanation.hosts, "host")
        text = f"Nova chose {nova_host}, which is not among the {known} known here"
        return Comparison(kind, text, ours, nova_host, ("unknown host",))
    if verdict.weighed is None:
        reasons = "; ".join(f"{each.filter} {each.reason}" for each in verdict.refusals)
        text = f"Nova chose {nova_host}, refused here: {reasons}"
        by = tuple(each.filter for each in verdict.refusals)
        return Comparison(kind, text, ours, nova_host, by)
    if ours is None:
        # A driver with rules of its own, or a request for several that fails for another instance.
        text = f"Nova chose {nova_host}, which passes here: {_steps(explanation)}"
        return Comparison(kind, text, None, nova_host, ("driver",))
    return _weighed(explanation, verdict, nova_host)


def _refused_by_nova(explanation: Explanation) -> Comparison:
    if explanation.chosen_node is None:
        text = f"both refused; here: {_steps(explanation)}"
        emptied_by = tuple(each.name for each in explanation.steps if not each.after)[:1]
        return Comparison(Kind.BOTH_REFUSED, text, decided_by=emptied_by)
    text = (
        f"Nova wrote no allocation; here {explanation.chosen_node} was chosen,"
        f" {explanation.passing} of {counted(explanation.hosts, 'host')}"
        f" {'passes' if explanation.passing == 1 else 'pass'}"
    )
    return Comparison(Kind.NOVA_NO_HOST, text, explanation.chosen_node)


def _weighed(explanation: Explanation, theirs: Verdict, nova_host: str) -> Comparison:
    """Compare two hosts that both pass."""
    ours = next(each for each in explanation.verdicts if each.chosen)
    assert theirs.weighed is not None
    if ours.weighed is None:
        text = f"the driver chose {ours.nodename} by rules of its own, Nova {nova_host}"
        return Comparison(Kind.WEIGHED, text, ours.nodename, nova_host, ("driver",))
    mine, other = ours.weighed, theirs.weighed
    if abs(mine.total - other.total) <= EQUAL:
        text = f"{ours.nodename} and Nova's {nova_host} weigh the same, {mine.total:.6g}"
        return Comparison(Kind.TIE, text, ours.nodename, nova_host)
    figures = f"{ours.nodename} weighs {mine.total:.6g}, Nova's {nova_host} {other.total:.6g}"
    if theirs.rank is not None and theirs.rank <= explanation.drawn_from:
        text = f"{figures}; both are among the {explanation.drawn_from} best, one of which is drawn"
        return Comparison(Kind.DRAWN, text, ours.nodename, nova_host)
    name = _deciding(mine.shares, other.shares)
    if name is None:
        return Comparison(Kind.WEIGHED, figures, ours.nodename, nova_host)
    shares = f"{mine.shares[name] + 0.0:.6g} against {other.shares.get(name, 0.0) + 0.0:.6g}"
    text = f"{figures}; most of that is {name}: {shares}"
    return Comparison(Kind.WEIGHED, text, ours.nodename, nova_host, (name,))


def _deciding(mine: Mapping[str, float], other: Mapping[str, float]) -> str | None:
    """Return the weigher that sets two hosts apart the most."""
    apart = {name: abs(share - other.get(name, 0.0)) for name, share in mine.items()}
    return max(apart, key=apart.__getitem__) if apart else None


def _steps(explanation: Explanation) -> str:
    return ", ".join(map(str, explanation.steps)) or "no hosts"


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds that half and 95 % of the requests took at most; None without any."""

    requests: int
    p50: float | None
    p95: float | None


def latency(seconds: Sequence[float]) -> Latency:
    ordered = sorted(seconds)
    if not ordered:
        return Latency(0, None, None)
    # The smallest time that 50 and 95 per cent of the requests do not exceed.
    p50, p95 = (ordered[-(-len(ordered) * part // 100) - 1] for part in (50, 95))
    return Latency(len(ordered), p50, p95)


def count_kinds(found: Iterable[Comparison]) -> dict[str, int]:
    """Return how many comparisons there are of each kind, none left out."""
    kinds = [each.kind for each in found]
    return {kind.value: kinds.count(kind) for kind in Kind}


def count_deciding(found: Iterable[Comparison]) -> dict[str, int]:
    """Return by filter or weigher in how many disagreements it made the difference."""
    counts: dict[str, int] = {}
    for each in found:
        for name in each.decided_by if each.kind not in AGREEING else ():
            counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

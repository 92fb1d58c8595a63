# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What reading a request and writing its answer costs, beside Nova's own object layer.

Every captured call of select_destinations is read as oslo.messaging hands it over, after its JSON
was parsed, and answered in the form that its caller asks for. Nova does the same in a process of
its own environment, by turns with ours and on the same processor.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.nova import ROOT, Peer, a_peer, one_processor, refuse_absence
from benchmarks.peer.timing import microseconds
from scheduler.rpc.codec import (
    SelectArguments,
    decode_destinations,
    decode_select_arguments,
    encode_destinations,
)
from scheduler.rpc.context import RequestContext

CAPTURED = ROOT / "tests" / "fixtures" / "wire"
# A Selection with two alternates, once more for each instance that a call is about.
ANSWER = "reply_select_destinations_4.5_objects_alternates"
WORKS = ("decode", "encode", "context")
LIMIT_US = 100
NOTES = """\
decode: ours has checked all bounds and taken the digest by which a request is known again; Nova's
        has objects that note what is changed, and can load what is absent
encode: the answer in the form and version that the caller asks for; Nova's is always of version 34
context: who calls, also for log lines; Nova's keeps the token and the service catalog"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of one kind of work for one call, turn by turn; refusal is why Nova cannot."""

    call: str
    bytes: int
    work: str
    ours: Sequence[float]
    nova: Sequence[float] = ()
    refusal: str | None = None

    @property
    def ratios(self) -> list[float]:
        """How often ours goes into Nova's, turn by turn."""
        return [nova / ours for nova, ours in zip(self.nova, self.ours, strict=False)]

    @property
    def quartiles(self) -> tuple[float, float]:
        """The ratios between which the middle half of the turns lies."""
        ordered = sorted(self.ratios)
        cut = len(ordered) // 4
        return ordered[cut], ordered[-1 - cut]

    @property
    def figures(self) -> dict[str, Any]:
        """What is written down."""
        found = {"call": self.call, "bytes": self.bytes, "work": self.work}
        found["ours_us"] = median(self.ours)
        if self.refusal:
            return found | {"refusal": self.refusal}
        found |= {"nova_us": median(self.nova), "ratio": median(self.ratios)}
        return found | {"ratio_quartiles": self.quartiles}

    def __str__(self) -> str:
        if self.refusal:
            return f"{median(self.ours):8.1f}      -     -"
        return f"{median(self.ours):8.1f} {median(self.nova):6.0f} {median(self.ratios):5.1f}"


class Refused(Exception):
    """Nova cannot do what it is asked."""


class Call:
    """A captured call; each public method is a kind of work."""

    def __init__(self, name: str) -> None:
        message = _captured(name)["message"]
        self.name = name.removeprefix("call_").replace("select_destinations_", "")
        self._args = message["args"]
        self._context = {
            key.removeprefix("_context_"): each
            for key, each in message.items()
            if key.startswith("_context_")
        }
        self._asked = decode_select_arguments(self._args)
        (selections,) = _captured(ANSWER)["message"]["result"]
        most = None if self._asked.return_alternates else 1
        answer = [selections[:most] for _ in self._asked.instance_uuids]
        self._destinations = decode_destinations(answer)
        self.captured = {"args": self._args, "context": self._context, "answer": answer}
        self.bytes = len(json.dumps(self._args))

    def decode(self) -> tuple[SelectArguments, str]:
        """Read the arguments."""
        asked = decode_select_arguments(self._args)
        return asked, asked.digest

    def encode(self) -> list[Any]:
        """Write the answer."""
        return encode_destinations(self._destinations, self._asked)

    def context(self) -> object:
        """Read who calls, and make it the context of log lines."""
        return RequestContext.from_dict(self._context).for_logging()


def _by_nova(peer: Peer, number: int, work: str, times: int) -> float:
    """Return what a kind of work costs Nova for the call of that number; raises Refused."""
    answer = peer.ask(number, work, times)
    if isinstance(answer, str):
        raise Refused(answer)
    return float(answer)


def costs(turns: int, times: int) -> Iterator[Cost]:
    """Yield what every kind of work costs for every captured call."""
    names = sorted(path.stem for path in CAPTURED.glob("call_*select_destinations*.json"))
    calls = [Call(name) for name in names]
    with one_processor(), a_peer("benchmarks.peer.objects") as peer:
        peer.tell([each.captured for each in calls])
        for number, call in enumerate(calls):
            for work in WORKS:
                yield _cost(call, work, turns, times, partial(_by_nova, peer, number, work))


def _cost(call: Call, work: str, turns: int, times: int, by_nova: Callable[[int], float]) -> Cost:
    ours, nova, refusal = [], [], None
    # The first turn is to warm up.
    for _ in range(turns + 1):
        ours.append(microseconds(getattr(call, work), times))
        try:
            nova.append(by_nova(times))
        except Refused as refused:
            refusal = str(refused)
    return Cost(call.name, call.bytes, work, ours[1:], nova[1:], refusal)


def _captured(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((CAPTURED / f"{name}.json").read_text())
    return found


def report(found: Sequence[Cost]) -> str:
    """Return the costs as a table, with what is to be known of them."""
    heads = "".join(f" |{work:>8} {'Nova':>6} {'ratio':>5}" for work in WORKS)
    lines = [f"{'us; call':27} {'bytes':>5}{heads}"]
    for each in found:
        if each.work == WORKS[0]:
            row = [str(cost) for cost in found if cost.call == each.call]
            lines.append(" |".join([f"{each.call:27} {each.bytes:5}", *row]))
    lines += [_summary(work, [each for each in found if each.work == work]) for work in WORKS]
    lines += [f"{each.call}: Nova refuses it, {each.refusal}" for each in found if each.refusal]
    most = max(each.bytes for each in found)
    before = [each for each in found if each.bytes == most and each.work != "encode"]
    spent = sum(median(each.ours) for each in before)
    verdict = "" if spent <= LIMIT_US else f", above {LIMIT_US}"
    lines.append(f"{before[0].call}: {spent:.0f} us before it is decided{verdict}")
    return "\n".join([*lines, NOTES])


def _summary(work: str, some: Sequence[Cost]) -> str:
    compared = [each for each in some if not each.refusal]
    ratios = [median(each.ratios) for each in compared]
    off = [
        abs(edge / ratio - 1)
        for each, ratio in zip(compared, ratios, strict=True)
        for edge in each.quartiles
    ]
    return (
        f"{work:8} Nova's takes {min(ratios):.1f} to {max(ratios):.1f} times as long; the middle"
        f" half of the turns is within {median(off):.0%} of that"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=11, metavar="N")
    parser.add_argument("--calls", type=int, default=50, metavar="N", help="Calls in a turn.")
    parser.add_argument("--json", metavar="FILE", help="Write the figures there as well.")
    asked = parser.parse_args()
    refuse_absence()
    found = list(costs(asked.turns, asked.calls))
    print(report(found))
    if asked.json:
        Path(asked.json).write_text(json.dumps([each.figures for each in found], indent=1))


if __name__ == "__main__":
    main()

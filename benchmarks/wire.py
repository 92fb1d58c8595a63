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
from functools import partial
from statistics import median
from typing import Any

from benchmarks import program
from benchmarks.figures import NOVA, OURS, Figure, find, ratios
from benchmarks.nova import ROOT, Peer, a_peer, one_processor, refuse_absence
from benchmarks.peer.timing import microseconds
from scheduler.wire.arguments import SelectArguments, decode_select_arguments
from scheduler.wire.context import RequestContext
from scheduler.wire.replies import decode_destinations, encode_destinations

CAPTURED = ROOT / "tests" / "fixtures" / "wire"
# A Selection with two alternates, once more for each instance that a call is about.
ANSWER = "reply_select_destinations_4.5_objects_alternates"
WORKS = ("decode", "encode", "context")
LIMIT_US = 100
Turn = Callable[[], float]
NOTES = """\
decode: ours has checked all bounds and taken the digest by which a request is known again; Nova's
        has objects that note what is changed, and can load what is absent
encode: the answer in the form and version that the caller asks for; Nova's is always of version 34
context: who calls, also for log lines; Nova's keeps the token and the service catalog"""


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


def measure(asked: argparse.Namespace) -> list[Figure]:
    """Return what every kind of work costs for every captured call."""
    refuse_absence()
    turns, times = (2, 10) if asked.quick else (asked.turns, asked.calls)
    names = sorted(path.stem for path in CAPTURED.glob("call_*select_destinations*.json"))
    calls, found = [Call(name) for name in names], []
    with one_processor(), a_peer("benchmarks.peer.objects") as peer:
        peer.tell([each.captured for each in calls])
        for number, call in enumerate(calls):
            for work in WORKS:
                by_nova = partial(_by_nova, peer, number, work, times)
                by_us = partial(microseconds, getattr(call, work), times)
                found += _figures(call, work, turns, by_us, by_nova)
    return found


def _figures(call: Call, work: str, turns: int, by_us: Turn, by_nova: Turn) -> Iterator[Figure]:
    """Yield our figure of a kind of work for a call, and Nova's unless it refuses the call."""
    ours, nova, facts = [], [], {"bytes": call.bytes}
    # The first turn is to warm up.
    for _ in range(turns + 1):
        ours.append(by_us())
        try:
            nova.append(by_nova())
        except Refused as refused:
            facts["refusal"] = str(refused)
    case = {"call": call.name}
    yield Figure(work, OURS, "us", ours[1:], case, facts)
    if nova:
        yield Figure(work, NOVA, "us", nova[1:], case)


def _captured(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((CAPTURED / f"{name}.json").read_text())
    return found


def report(found: Sequence[Figure]) -> str:
    """Return the figures as a table, with what is to be known of them."""
    heads = "".join(f" |{work:>8} {'Nova':>6} {'ratio':>5}" for work in WORKS)
    lines = [f"{'us; call':27} {'bytes':>5}{heads}"]
    ours = [each for each in found if each.who == OURS and each.what == WORKS[0]]
    for each in ours:
        cells = [_cells(found, work, each.case["call"]) for work in WORKS]
        lines.append(" |".join([f"{each.case['call']:27} {each.facts['bytes']:5}", *cells]))
    lines += [_summary(work, found) for work in WORKS]
    lines += [
        f"{each.case['call']}: Nova refuses it, {each.facts['refusal']}"
        for each in ours
        if "refusal" in each.facts
    ]
    largest = max(ours, key=lambda each: each.facts["bytes"]).case["call"]
    before = [each for each in found if each.case["call"] == largest and each.who == OURS]
    spent = sum(each.median for each in before if each.what != "encode")
    verdict = "" if spent <= LIMIT_US else f", above {LIMIT_US}"
    lines.append(f"{largest}: {spent:.0f} us before it is decided{verdict}")
    return "\n".join([*lines, NOTES])


def _cells(found: Sequence[Figure], work: str, call: str) -> str:
    ours, nova = (find(found, work, who, call=call) for who in (OURS, NOVA))
    assert ours is not None
    if nova is None:
        return f"{ours.median:8.1f}      -     -"
    (ratio,) = ratios([ours, nova])
    return f"{ours.median:8.1f} {nova.median:6.0f} {ratio.median:5.1f}"


def _summary(work: str, found: Sequence[Figure]) -> str:
    compared = list(ratios(each for each in found if each.what == work))
    medians = [each.median for each in compared]
    off = [abs(edge / each.median - 1) for each in compared for edge in each.quartiles]
    return (
        f"{work:8} Nova's takes {min(medians):.1f} to {max(medians):.1f} times as long; the middle"
        f" half of the turns is within {median(off):.0%} of that"
    )


def main() -> None:
    options = program.parser(__doc__)
    options.add_argument("--turns", type=int, default=7, metavar="N")
    options.add_argument("--calls", type=int, default=40, metavar="N", help="Calls in a turn.")
    program.run(options, measure, report)


if __name__ == "__main__":
    main()

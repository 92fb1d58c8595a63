# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a decision costs, beside Nova's own loop and bare numpy over the same hosts.

All decide by turns, on the same processor, for requests of a small flavor; figures are milliseconds
of the processor. A fleet has all of its hosts up, with room for everything that is asked.

ours    one call of the driver as the service makes it between the view and the claim: copy,
        filters, weighers, choice, what is taken, explanations. With default plug-ins memory, vCPUs
        and disk are filtered besides what Nova filters, which has Placement for it. Between two
        decisions of a turn nothing changes but heartbeats, so that what is remembered of a request
        counts; "stream" and "fresh" are for hosts that change and requests that differ.
Nova    its filter, weigh and consume loop over hosts that are in memory already, with default
        plug-ins; no database, Placement, claims and debug lines, which take its time besides. By
        default Placement gives it 1,000 hosts at most (max_placement_results): it costs then what
        the row of 1,000 hosts says, and Nova chooses among those alone.
numpy   the floor: masks, one sum, the best row, written by hand for this one question.

spread    weights as they are by default; stack the same with memory, vCPUs and disk at -1.
grouped   this share of hosts has a member of the request's anti-affinity group (or affinity).
sets      distinct sets of aggregates, 40 if nothing is said; a quarter overrides a multiplier.
list      comparable is the three filters that both have: compute, capabilities and image
          properties. Nova 34 has none for memory, vCPUs, disk and zones any more; ours are off.
stream    requests of three flavors in turn; each finds gone what the ones before have taken.
fresh     the same with flavors and images that were not seen before, and zones; Nova is given
          the hosts of the zone only, as Placement gives them to it.
kept      the same stream of requests by two schedulers in turn, of which one leaves its decisions
          to be kept; that is done between the turns, and reported by itself.
"""

import argparse
import gc
from collections.abc import Iterator, Sequence

from benchmarks import program
from benchmarks.decisions import cases, keeping
from benchmarks.decisions.by_turns import by_turns
from benchmarks.decisions.cases import Case
from benchmarks.decisions.growth import growth
from benchmarks.decisions.report import report
from benchmarks.decisions.sides import Nova, Numpy, Ours
from benchmarks.decisions.streams import busy_streams, streams
from benchmarks.figures import Figure
from benchmarks.nova import Peer, a_peer, one_processor, refuse_absence
from scheduler.cmd import GC_THRESHOLD

TURNS, TURNS_OF_A_LOOK = 9, 2


def measure(asked: argparse.Namespace) -> Sequence[Figure]:
    """Return the figures of all cases, of streams, and how costs grow."""
    refuse_absence()
    # As the service does.
    gc.set_threshold(GC_THRESHOLD)
    turns = asked.turns or (TURNS_OF_A_LOOK if asked.quick else TURNS)
    found: list[Figure] = []
    with one_processor(), a_peer("benchmarks.peer.decisions") as peer:
        for some in cases.by_fleet(cases.QUICK if asked.quick else cases.WHOLE):
            found += _on_fleet(some, turns, peer)
        if not asked.quick:
            found += streams(turns, peer)
        found += busy_streams(turns, asked.quick)
        found += keeping.figures(asked.quick)
    return [*found, *growth(found)]


def _on_fleet(some: Sequence[Case], turns: int, peer: Peer) -> Iterator[Figure]:
    """Yield the figures of cases that are about the same hosts."""
    fleet = some[0].fleet()
    hosts = fleet.table()
    nova = Nova(peer, fleet) if any(each.with_nova for each in some) else None
    numpy = Numpy(fleet)
    for each in some:
        yield from by_turns(
            each, each.wish(fleet), (Ours(hosts, each.settings), nova, numpy), turns
        )


def main() -> None:
    options = program.parser(__doc__)
    options.add_argument("--turns", type=int, metavar="N", help="How often ours decides.")
    program.run(options, measure, report)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a decision costs, beside Nova's own loop over the same hosts.

Each decides with the filters and weighers that it enables by default, by turns and on the same
processor, for one request of a small flavor. Ours filters memory, vCPUs and disk besides, for which
Nova has Placement, whose time is not counted here.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from oslo_config import cfg

from benchmarks import comparable
from benchmarks.nova import Peer, a_peer, one_processor, refuse_absence
from conf import loading
from scheduler import plugins
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision
from scheduler.decision.pipeline import Request

# Hosts, and instances of one request; Nova takes part where that is no matter of minutes.
CASES = (
    *((hosts, 1) for hosts in (100, 1_000, 10_000, 100_000)),
    *((10_000, instances) for instances in (10, 100, 1_000)),
)
QUICK = ((100, 1), (1_000, 1), (1_000, 10))
MOST_FOR_NOVA = 100_000
# At 10,000 hosts, in milliseconds, by the number of instances.
FIGURES = {1: 0.5, 1_000: 30.0}
Decide = Callable[[HostTable, Request], Decision]


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of the processor for one decision, turn by turn; Nova's may be none."""

    hosts: int
    instances: int
    ours: Sequence[float]
    nova: Sequence[float]
    same_hosts: bool | None

    def __str__(self) -> str:
        row = f"{self.hosts:7} {self.instances:9} {median(self.ours):10.2f}"
        row += f" {min(self.ours):8.2f} {max(self.ours):8.2f}"
        if self.nova:
            ratio = median(self.nova) / median(self.ours)
            same = "yes" if self.same_hosts else "no"
            row += f" {median(self.nova):11.0f} {ratio:7.0f}   {same}"
        figure = FIGURES.get(self.instances) if self.hosts == 10_000 else None
        if figure is not None:
            row += f"   {'within' if median(self.ours) <= figure else 'above'} {figure} ms"
        return row


def costs(cases: Sequence[tuple[int, int]], turns: int) -> Iterator[Cost]:
    """Yield what each case costs."""
    conf = cfg.ConfigOpts()
    loading.read(conf, "berthmaster-scheduler", [], "")
    decide = plugins.load_driver(conf).decide
    with one_processor(), a_peer("benchmarks.peer.decisions") as peer:
        for hosts in sorted({hosts for hosts, _ in cases}):
            fleet = comparable.a_fleet(hosts)
            table, words = comparable.a_table(fleet), (comparable.FLAVOR, comparable.IMAGE)
            peer.ask("fleet", fleet, *words, comparable.SUPPORTED)
            for _, instances in (each for each in cases if each[0] == hosts):
                yield _cost(table, instances, decide, peer, turns)


def _cost(hosts: HostTable, instances: int, decide: Decide, peer: Peer, turns: int) -> Cost:
    request = Request(comparable.a_request(), [f"u{number}" for number in range(instances)])
    ours, nova, same = [], [], None
    with_nova = len(hosts) * instances <= MOST_FOR_NOVA
    # The first turn is to warm up, also for Nova.
    for turn in range(turns + 1):
        began = time.process_time()
        decision = decide(hosts.working_copy(), request)
        ours.append(1000 * (time.process_time() - began))
        if with_nova and turn <= max(2, turns * 10_000 // len(hosts) // instances):
            seconds, chosen = peer.ask("decide", instances)
            nova.append(1000 * seconds)
            same = [each.chosen.host for each in decision.placements] == chosen
    return Cost(len(hosts), instances, ours[1:], nova[1:], same)


def report(found: Sequence[Cost]) -> str:
    """Return the costs as a table."""
    head = f"{'hosts':>7} {'instances':>9} {'ours, ms':>10} {'least':>8} {'most':>8}"
    return "\n".join([f"{head} {'Nova, ms':>11} {'ratio':>7}   same hosts", *map(str, found)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=15, metavar="N")
    parser.add_argument("--quick", action="store_true", help="Small fleets only.")
    parser.add_argument("--json", metavar="FILE", help="Write the figures there as well.")
    asked = parser.parse_args()
    refuse_absence()
    found = list(costs(QUICK if asked.quick else CASES, asked.turns))
    print(report(found))
    if asked.json:
        Path(asked.json).write_text(json.dumps([asdict(each) for each in found], indent=1))


if __name__ == "__main__":
    main()

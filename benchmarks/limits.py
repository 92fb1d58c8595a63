# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The figures to reach: each with where it is found in what benchmarks measure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.figures import BOUND, ECHO, FLOOR, LIBVIRT, NOVA, OURS, Case, plain


@dataclass(frozen=True, slots=True)
class Beside:
    """What a figure is divided by: who else's, in which case that is otherwise the same."""

    who: str
    case: Case = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so much, or at least, of all figures of a case, of which only what matters is named.

    The worst of them counts, or the best if it is to be shown what is possible. note is always
    said, reason where the limit does not hold.
    """

    about: str
    what: str
    unit: str
    limit: float
    case: Case = field(default_factory=dict)
    who: str = OURS
    beside: Beside | None = None
    at_least: bool = False
    best: bool = False
    note: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        """The limit as people write it."""
        unit = "x" if self.beside else self.unit
        return f"{'>=' if self.at_least else '<='} {plain(self.limit)} {unit}".rstrip()

    def held_by(self, value: float) -> bool:
        """Tell whether a value is within the limit."""
        return value >= self.limit if self.at_least else value <= self.limit


_PLAIN: Mapping[str, object] = {"weighing": "spread", "grouped": 0, "aggregate_sets": 40}
_BUSY: Mapping[str, object] = {"instances": 1, "flavors": 8, "foreign_changes": 4}
_ONE_CALLER: Mapping[str, object] = {"hosts": 10_000, "callers": 1}
_FLEET: Mapping[str, object] = {"hosts": 1_000, "instances": 10_000}
_LARGE_FLEET: Mapping[str, object] = {"hosts": 5_000, "instances": 30_000}
_ONE_PROCESS: Mapping[str, object] = {"workers": 1, "schedulers": 1, "instances": 1}

LIMITS = (
    Limit(
        "decide compared with bare numpy, 100 hosts, 1 instance",
        "decide", "ms", 4, {"hosts": 100, "instances": 1, **_PLAIN}, beside=Beside(FLOOR),
    ),
    Limit(
        "decide compared with bare numpy, 10,000 hosts, 1 instance",
        "decide", "ms", 2, {"hosts": 10_000, "instances": 1, **_PLAIN}, beside=Beside(FLOOR),
    ),
    Limit(
        "decide compared with bare numpy, 1,000 hosts, 8 flavors, others change 4 rows between",
        "decide", "ms", 4, {"hosts": 1_000, **_BUSY}, beside=Beside(FLOOR),
    ),
    Limit(
        "decide compared with bare numpy, 10,000 hosts, 8 flavors, others change 4 rows between",
        "decide", "ms", 2, {"hosts": 10_000, **_BUSY}, beside=Beside(FLOOR),
    ),
    Limit(
        "decide compared with bare numpy, 100,000 hosts, 8 flavors, others change 4 rows between",
        "decide", "ms", 1.2, {"hosts": 100_000, **_BUSY}, beside=Beside(FLOOR),
    ),
    Limit(
        "decide compared with bare numpy for a flavor and an image never seen, 10,000 hosts",
        "decide", "ms", 2.5, {"hosts": 10_000, "instances": 1, "fresh": True},
        beside=Beside(FLOOR),
    ),
    Limit(
        "Nova's loop compared with ours, 10,000 hosts, 1 instance",
        "decide", "ms", 1_500, {"hosts": 10_000, "instances": 1, **_PLAIN},
        who=NOVA, beside=Beside(OURS), at_least=True,
    ),
    Limit(
        "decide for 1,000 instances compared with that for 1, 10,000 hosts",
        "decide", "ms", 50, {"hosts": 10_000, "instances": 1_000, **_PLAIN},
        beside=Beside(OURS, {"instances": 1}),
    ),
    Limit(
        "decide and leave it to be kept compared with decide, 10,000 hosts",
        "decide, kept or not", "ms", 1.1, {"hosts": 10_000, "kept": True},
        beside=Beside(OURS, {"kept": False}),
        reason="A snapshot of what has changed takes 0.03 ms, whatever is decided.",
    ),
    Limit(
        "whether a guest of 8 NUMA cells with devices fits a host of 16, the slowest case",
        "fit, the slowest found", "ms", 10, {"cells": 16},
        reason="All 12,870 choices of cells are looked at together; while other programs use the"
        " processor that takes up to twice as long.",
    ),
    Limit(
        "select_destinations compared with an echo, 10,000 hosts, claims off",
        "select", "ms", 1.5, {**_ONE_CALLER, "claims": False}, beside=Beside(ECHO),
        reason="Without claims the database is asked before each decision what has changed; the"
        " echo asks nobody.",
    ),
    Limit(
        "select_destinations compared with an echo, 10,000 hosts, claims on",
        "select", "ms", 2.5, {**_ONE_CALLER, "claims": True}, beside=Beside(ECHO),
        reason="A claim is a transaction that is on the disk before the answer is given; the echo"
        " asks nobody and writes nothing.",
    ),
    Limit(
        "claimed placements on one machine, 10,000 hosts, calls for 1 instance",
        "claimed placements", "/s", 500, {"hosts": 10_000, "instances": 1},
        at_least=True, best=True,
        reason="Broker, database, callers and schedulers share two processors. At 500 a second they"
        " have 4 ms for each claim; the schedulers alone use 3, a sixth of it for deciding, a third"
        " in oslo.messaging, a tenth each for claims, records and pushes"
        " (benchmarks/results/profile.txt).",
    ),
    Limit(
        "claimed placements on one machine, 10,000 hosts, calls for 10 instances",
        "claimed placements", "/s", 2_000, {"hosts": 10_000, "instances": 10},
        at_least=True, best=True,
        reason="Each instance is three claims, two of them of alternates: rows that are written,"
        " read and pushed to other schedulers.",
    ),
    Limit(
        "claimed placements of calls for 10 instances compared with those of calls for 1",
        "claimed placements", "/s", 1, {"hosts": 10_000, "instances": 10},
        beside=Beside(OURS, {"instances": 1}), at_least=True,
    ),
    Limit(
        "claimed placements of one process, threading compared with eventlet",
        "claimed placements", "/s", 1, {"hosts": 10_000, "backend": "threading", **_ONE_PROCESS},
        beside=Beside(OURS, {"backend": "eventlet"}), at_least=True,
        reason="Both do the same work, and differ by less than two runs do.",
    ),
    Limit(
        "99 of 100 answers compared with the median, claims on, 32 callers",
        "select, p99 through p50", "x", 4,
        {"hosts": 10_000, "callers": 32, "claims": True, "instances": 1},
    ),
    Limit(
        "requests of (anti-)affinity groups compared with plain ones, 5,000 hosts",
        "select, rate", "/s", 0.5, {"hosts": 5_000, "grouped": True},
        beside=Beside(OURS, {"grouped": False}), at_least=True,
        reason="Plain requests share their transactions, those of a group lock its row each.",
    ),
    Limit(
        "plan a drain of 10 hosts, 1,000 hosts and 10,000 instances",
        "plan", "s", 5, {"goal": "drain", **_FLEET},
    ),
    Limit(
        "plan a consolidation, 1,000 hosts and 10,000 instances",
        "plan", "s", 60, {"goal": "consolidate", **_FLEET},
    ),
    Limit(
        "plan a consolidation, 5,000 hosts and 30,000 instances",
        "plan", "s", 180, {"goal": "consolidate", **_LARGE_FLEET},
    ),
    Limit(
        "hosts emptied by it compared with the upper bound, 1,000 hosts and 10,000 instances",
        "hosts emptied by consolidation", "", 0.9, _FLEET, beside=Beside(BOUND), at_least=True,
    ),
    Limit(
        "hosts emptied by it compared with the upper bound, 5,000 hosts and 30,000 instances",
        "hosts emptied by consolidation", "", 0.9, _LARGE_FLEET,
        beside=Beside(BOUND), at_least=True,
    ),
    Limit("view, nothing changed, 10,000 hosts", "view, nothing changed", "ms", 2,
          {"hosts": 10_000}),
    Limit(
        "view, full load, 10,000 hosts", "view, full load", "ms", 800, {"hosts": 10_000},
        reason="Half of it is PyMySQL, which reads rows in Python (the floor); the rest are"
        " documents of 10,000 hosts and 50,000 instances. With mysqlclient in its place it took"
        " 0.87 s instead of 1.15.",
    ),
    Limit(
        "processor of a peer's claim compared with that of one's own, 8 in a message, 10,000 hosts",
        "claim of a peer through own", "x", 0.05, {"hosts": 10_000, "claims in a message": 8},
    ),
    Limit(
        "audit compared with libvirt's bulk call, 1,000 guests",
        "audit", "ms", 1.5, {"guests": 1000}, beside=Beside(LIBVIRT),
        reason="Three quarters of it are what an audit asks of libvirt (the row below); for the"
        " rest it reads from the database what it knows of every guest, and compares.",
    ),
    Limit(
        "what an audit asks of libvirt compared with the bulk call, 1,000 guests",
        "audit, libvirt's part", "ms", 1.5, {"guests": 1000}, beside=Beside(LIBVIRT),
    ),
    Limit("guest started, until schedulers know", "guest started, known", "ms", 1000),
    Limit(
        "nova-scheduler compared with ours, allocations written, 1,000 hosts, 1 caller",
        "select with allocations", "ms", 20, {"hosts": 1000, "callers": 1},
        who=NOVA, beside=Beside(OURS), at_least=True,
    ),
    Limit(
        "nova-scheduler compared with ours, allocations written, 1,000 hosts, 8 callers",
        "select with allocations", "ms", 20, {"hosts": 1000, "callers": 8},
        who=NOVA, beside=Beside(OURS), at_least=True,
    ),
    Limit(
        "processor of polls of a Nova cloud per second, 10,000 hosts in 3 cells",
        "a second of polls", "ms", 50, {"hosts": 10_000, "cells": 3},
    ),
    Limit(
        "instance in one of 3 cells of Nova, known, 10,000 hosts",
        "instance in Nova, known", "s", 3, {"hosts": 10_000, "cells": 3},
    ),
    Limit(
        "protected instances admitted, shared standbys compared with the smallest safe percentage",
        "protected instances admitted", "", 1, {"policy": "shared standbys"},
        beside=Beside(OURS, {"policy": "smallest safe percentage"}), at_least=True,
        reason="The percentage is known only after the run. Where small instances fill all hosts it"
        " is hardly more than one rack, the least that anybody can keep free.",
    ),
    Limit(
        "protected instances admitted, shared standbys compared with a rack of spare hosts",
        "protected instances admitted", "", 1, {"policy": "shared standbys"},
        beside=Beside(OURS, {"policy": "a rack of spare hosts"}), at_least=True,
        reason="Where all racks are alike and full, nobody can keep less free than one of them. A"
        " rack that is kept empty is just that; the standbys of a rack leave gaps on their hosts.",
    ),
    Limit(
        "processor of a protected claim compared with that of another one, 1,000 hosts",
        "protected claim through another one", "x", 1.5,
    ),
    Limit(
        "processor of a claim that is not protected compared with one where nothing could be",
        "claim where others may be protected", "x", 1.02,
    ),
    Limit(
        "keeper after a rack of 50 hosts with 1,000 protected instances has died",
        "keeper after a rack died", "s", 30, {"hosts of a rack": 50},
    ),
    Limit(
        "keeper after these 1,000 instances were evacuated",
        "keeper after its instances were evacuated", "s", 30, {"hosts of a rack": 50},
    ),
    Limit(
        "double bookings, leaked claims, lost instances in calm storms",
        "violations", "", 0,
        note="Under kill, restart and partition they are counted by the tests"
        " (tests/functional/test_chaos.py) and by make chaos, not in this run.",
    ),
)  # fmt: skip

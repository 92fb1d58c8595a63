# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The quick look of each part of the benchmarks, with the figures that it has to find."""

import importlib

import pytest

from benchmarks.document import Document
from benchmarks.figures import BOUND, ECHO, EXACT, FLOOR, LIBVIRT, NOVA, OURS
from benchmarks.limits import LIMITS
from tests.fixtures import availability

benchmarks = importlib.import_module("benchmarks.__main__")

# What is measured, and for whom.
FIGURES = {
    "decisions": {
        "decide": {OURS, NOVA, FLOOR},
        "decide, kept or not": {OURS},
        "keep a decision": {OURS},
        "growth with hosts": {OURS, NOVA, FLOOR},
    },
    "wire": {each: {OURS, NOVA} for each in ("context", "decode", "encode")},
    "plugins": {"filter": {OURS}, "weigher": {OURS}},
    "numa": {"fit, the slowest found": {OURS}},
    "packing": {"vCPUs in use at first refusal": {OURS, NOVA}},
    "failover": {"protected instances admitted": {OURS}},
    "planning": {
        "plan": {OURS},
        "hosts emptied by consolidation": {OURS, BOUND},
        "consolidation of small fleets, hosts emptied": {OURS, EXACT},
        "balance of ROADEF instances": {OURS},
    },
    "view": {"view, full load": {OURS, FLOOR}, "view, nothing changed": {OURS}},
    "peer_claims": {
        each: {OURS} for each in ("own claim", "claim of a peer", "claim of a peer through own")
    },
    "protected_claims": {
        each: {OURS}
        for each in (
            *("claim, not protected", "claim, protected", "claim, nothing known of protection"),
            *("protected claim through another one", "claim where others may be protected"),
        )
    },
    "endtoend": {
        "select": {OURS, ECHO},
        "select, rate": {OURS, ECHO},
        "select, p99 through p50": {OURS, ECHO},
        "claimed placements": {OURS},
    },
    "startup": {
        each: {OURS}
        for each in (
            *("start, ready", "start, slowest first answer"),
            *("start, p50 of the stream", "start, p99 through p50 of the stream"),
        )
    },
    "storm": {"violations": {OURS}, "claimed placements": {OURS}},
    "agent": {"audit": {OURS, LIBVIRT}, "audit, libvirt's part": {OURS, LIBVIRT}},
    "pushes": {"guest started, known": {OURS}, "guest ended, known": {OURS}},
    "placement": {
        "select with allocations": {OURS, NOVA},
        "select beside a bare POST /allocations": {OURS, FLOOR},
    },
    "mirror": {"a second of polls": {OURS}, "instance in Nova, known": {OURS}},
    "standby_keeping": {
        each: {OURS}
        for each in ("keeper after a rack died", "keeper after its instances were evacuated")
    },
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", benchmarks.PARTS)
def test_a_quick_look_finds_all_figures(name, tmp_path):
    for each in (
        availability.NOVA, availability.RABBITMQ, availability.MARIADB, availability.LIBVIRTD,
    ):  # fmt: skip
        availability.require(each)
    benchmarks.main(["--quick", "--only", name, "--results", str(tmp_path)])
    part = Document.read(tmp_path / "quick.json").parts[name]
    assert part.failed is None
    found: dict[str, set[str]] = {}
    for figure in part.figures:
        assert figure.turns
        found.setdefault(figure.what, set()).add(figure.who)
    assert {what: found.get(what) for what in FIGURES[name]} == FIGURES[name]


def test_each_part_and_each_figure_to_reach_is_tried():
    assert FIGURES.keys() == benchmarks.PARTS.keys()
    measured = {what for figures in FIGURES.values() for what in figures}
    assert {limit.what for limit in LIMITS} <= measured

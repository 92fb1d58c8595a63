# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.errors: words of messages, and that numbers have their nouns everywhere."""

import re
from pathlib import Path

import pytest

from inventory.errors import counted, similar

ROOT = Path(__file__).parents[3]
PACKAGES = ("compute_agent", "conf", "inventory", "scheduler")
NOUNS = """
aggregates allocations attempts cells claims conflicts cores days decisions devices errors filters
flavors groups guests hosts images instances items members migrations moves nodes ports projects
requests rows services vCPUs weighers workers zones
"""
# A number that is filled in, by either way of formatting, and the plural of a noun.
PLURAL = re.compile(rf"(?:\{{[^{{}}]+\}}|%[sd]) (?:\w+ )?(?:{'|'.join(NOUNS.split())})\b")
# Numbers that are never 1, and what is no number at all.
OTHERS = {
    ("background_publisher", "%s drops items"),
    ("capacity_forecast", "{_days(earliest)} days"),
    ("capacity_forecast", "{_days(latest)} days"),
    ("capacity_forecast", "{found['counted_days']:.1f} days"),
    ("cell", "{name for name in self.nodes.names() if name.host in hosts} if hosts"),
    ("disks", "{disk.format or 'unnamed'} images"),
    ("explain", "{len(rows)} decisions"),
    ("field_types", "{len(items)} items"),
    ("fit", "{len(cells)} NUMA cells"),
    ("format_decision", "{drawn_from} best hosts"),
    ("format_decision", "{'passes' if passing == 1 else 'pass'} all filters"),
    ("host_aggregates", "%s aggregates"),
    ("host_state", "{vcpu, memory_mb, disk_gb} as filters"),
    ("instance_queries", "{len(shown)} instances"),
    ("request_trace", "{count} instances"),
    ("shadow", "{MAX_PENDING} requests"),
    ("simulation_arguments", "{MAX_HOSTS} hosts"),
    ("snapshot_documents", "{size} rows"),
    ("usage_update", "{vcpu, memory_mb, disk_gb} that filters"),
}


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ["host"], "0 hosts"),
        (1, ["host"], "1 host"),
        (2, ["host"], "2 hosts"),
        (1, ["instance has", "instances have"], "1 instance has"),
        (2, ["instance has", "instances have"], "2 instances have"),
        (1, ["MB", "MB"], "1 MB"),
        (2000, ["host", "", ","], "2,000 hosts"),
    ],
)
def test_numbers_agree_with_their_nouns(number, words, text):
    assert counted(number, *words) == text


def test_of_equally_similar_names_those_that_begin_the_same_come_first_and_then_the_lowest():
    hosts = [f"compute-{number:05}" for number in range(1, 2001)]
    assert similar("compute-0000x", hosts) == ["compute-00001", "compute-00002", "compute-00003"]
    assert similar("COMPUTE-0200", hosts)[0] == "compute-02000"
    assert similar("compute-1", []) == []


def test_no_text_has_a_plural_for_any_number():
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            found |= {(path.stem, text) for text in PLURAL.findall(path.read_text())}
    assert {each for each in found if "counted(" not in each[1]} == OTHERS

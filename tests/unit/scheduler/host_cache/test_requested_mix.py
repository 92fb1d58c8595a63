# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache.requested_mix: which mix is found, and when."""

from datetime import datetime
from queue import Queue

import pytest

from inventory.database_errors import DatabaseUnavailable
from inventory.queries import requested_sizes
from scheduler.host_cache import requested_mix
from scheduler.host_cache.requested_mix import MixSettings, RequestedMix
from scheduler.hosts.flavor_mix import PRESENT_COUNT, make_mix
from tests.fixtures.daemons.process import PATIENCE

SMALL, LARGE = (1, 2048, 0), (8, 8192, 1024)
LEARNED = MixSettings((), 3600)
FIXED = MixSettings([(*SMALL, 1.0), (*LARGE, 2.0), (*SMALL, 1.0)], 3600)


class Counts:
    """Stands for the database, whose transactions are asked for nothing but these counts."""

    def __init__(self, monkeypatch):
        self.until = datetime(2026, 1, 1)
        self.requested, self.present = {}, {}
        self.readings = 0
        self.failure = None
        monkeypatch.setattr(requested_sizes, "counted_until", lambda _: self.until)
        monkeypatch.setattr(requested_sizes, "requested", self._requested)
        monkeypatch.setattr(requested_sizes, "present", lambda _: self.present)

    def read(self, work):
        if self.failure:
            raise self.failure
        return work(None)

    def _requested(self, connection, until, half_life):
        assert (until, half_life) == (self.until, 3600)
        self.readings += 1
        return self.requested


@pytest.fixture
def counts(monkeypatch):
    return Counts(monkeypatch)


def test_the_instances_that_there_are_stand_for_requests_until_there_are_some(counts):
    used = []
    mix = RequestedMix(counts, LEARNED, used.append)
    counts.present = {SMALL: 300, LARGE: 100}
    mix.refresh()
    assert used == [make_mix({SMALL: 3, LARGE: 1})]
    counts.until = datetime(2026, 1, 2)
    counts.requested = {LARGE: 9950.0}
    mix.refresh()
    assert [each.size for each in used[1]] == [LARGE, SMALL]
    assert used[1][1].share == pytest.approx(0.75 * PRESENT_COUNT / 10_000)


def test_it_is_counted_again_only_after_some_minutes_or_with_other_settings(counts):
    used = []
    mix = RequestedMix(counts, LEARNED, used.append)
    counts.requested = {SMALL: 1.0}
    mix.refresh()
    mix.refresh()
    assert (counts.readings, len(used)) == (1, 1)
    counts.until = datetime(2026, 1, 2)
    mix.refresh()
    assert (counts.readings, len(used)) == (2, 2)


def test_a_configured_mix_is_used_as_it_is(counts):
    used = []
    mix = RequestedMix(counts, FIXED, used.append)
    mix.refresh()
    assert used == [make_mix({SMALL: 1, LARGE: 1})]
    assert counts.readings == 0


def test_a_thread_finds_the_mix_and_other_settings_at_once(counts):
    used = Queue()
    counts.requested = {SMALL: 1.0}
    mix = RequestedMix(counts, LEARNED, used.put)
    mix.start()
    assert used.get(timeout=PATIENCE) == make_mix({SMALL: 1})
    mix.configure(FIXED)
    assert used.get(timeout=PATIENCE) == make_mix({SMALL: 1, LARGE: 1})
    mix.configure(LEARNED)
    assert used.get(timeout=PATIENCE) == make_mix({SMALL: 1})
    mix.stop()
    assert not mix._thread.is_alive()


def test_an_outage_is_logged_once_and_the_mix_kept(counts, monkeypatch, caplog):
    monkeypatch.setattr(requested_mix, "INTERVAL", 0.01)
    used = Queue()
    counts.requested = {SMALL: 1.0}
    counts.failure = DatabaseUnavailable("gone away")
    mix = RequestedMix(counts, LEARNED, used.put)
    caplog.set_level("INFO")
    mix.start()
    assert used.empty()
    counts.failure = None
    assert used.get(timeout=PATIENCE) == make_mix({SMALL: 1})
    mix.stop()
    texts = [record.getMessage() for record in caplog.records if "flavor mix" in record.message]
    assert len([text for text in texts if "failed" in text]) == 1
    assert "gone away" in texts[0]
    assert "recovered" in texts[-1]

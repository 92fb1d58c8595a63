# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache.refresh_queries."""

import gc

import pytest

from scheduler.host_cache import refresh_queries


def test_nothing_is_collected_while_much_is_made():
    with refresh_queries.gc_paused(True):
        assert not gc.isenabled()
    with pytest.raises(KeyError), refresh_queries.gc_paused(True):
        raise KeyError
    assert gc.isenabled()
    with refresh_queries.gc_paused(False):
        assert gc.isenabled()


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        with refresh_queries.gc_paused(True):
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: a node stays stale until it is read after it was marked."""

import pytest

from tests.databases import execute
from tests.unit.scheduler.host_cache.pushing import deliver, write
from tests.unit.scheduler.host_cache.test_assumed_in_flight import (
    FREE,
    LONG_AGO,
    a_claim,
    cache,
    claim,
    cloud,
    free,
    reload,
    reserve,
    there,
)

__all__ = ["cache", "cloud"]


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("pushed", [False, True])
def test_a_doubt_that_arises_while_an_earlier_one_is_read_about_is_not_lost(
    cloud, cache, pushed, complete
):
    def meanwhile():
        if pushed:
            deliver(cache, write(cloud, "h1", free_ram_mb=FREE - 1))
        reserve(cache, "h1", "u1")
        cache.mark_stale([1])

    cache.mark_stale([1])
    cloud.meanwhile = meanwhile
    reload(cache) if complete else cache.refresh()
    cache.refresh()
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - pushed, [])


def test_a_doubt_that_a_push_outran_is_read_about_once_more(cloud, cache):
    """The reading says nothing of what was reserved since the push."""

    def meanwhile():
        deliver(cache, write(cloud, "h1", free_ram_mb=FREE - 1))
        reserve(cache, "h1", "u1")

    cache.mark_stale([1])
    cloud.meanwhile = meanwhile
    cache.refresh()
    assert there(cache, "h1") == ["u1"]
    cache.refresh()
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 1, [])


@pytest.mark.parametrize("complete", [False, True])
def test_a_change_that_is_doubted_while_an_earlier_state_is_read_is_seen(cloud, cache, complete):
    """Its writer had waited for the row for so long that its stamp is an old one."""

    def meanwhile():
        claim(cloud, a_claim("u1", 1))
        execute(cloud, f"UPDATE compute_nodes SET updated_at = {LONG_AGO}")
        cache.mark_stale([1])

    cache.mark_stale([1])
    cloud.meanwhile = meanwhile
    reload(cache) if complete else cache.refresh()
    cache.refresh()
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 2048, ["u1"])

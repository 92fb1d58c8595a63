# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_view: a doubt about a node lasts until it is read after it arose."""

import pytest

from tests.databases import execute
from tests.unit.scheduler.host_view.pushing import deliver, write
from tests.unit.scheduler.host_view.test_reservations import (
    FREE,
    LONG_AGO,
    a_claim,
    claim,
    cloud,
    free,
    reload,
    reserve,
    there,
    view,
)

__all__ = ["cloud", "view"]


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("pushed", [False, True])
def test_a_doubt_that_arises_while_an_earlier_one_is_read_about_is_not_lost(
    cloud, view, pushed, complete
):
    def meanwhile():
        if pushed:
            deliver(view, write(cloud, "h1", free_ram_mb=FREE - 1))
        reserve(view, "h1", "u1")
        view.distrust([1])

    view.distrust([1])
    cloud.meanwhile = meanwhile
    reload(view) if complete else view.refresh()
    view.refresh()
    assert (free(view, "h1"), there(view, "h1")) == (FREE - pushed, [])


def test_a_doubt_that_a_push_outran_is_read_about_once_more(cloud, view):
    """The reading says nothing of what was reserved since the push."""

    def meanwhile():
        deliver(view, write(cloud, "h1", free_ram_mb=FREE - 1))
        reserve(view, "h1", "u1")

    view.distrust([1])
    cloud.meanwhile = meanwhile
    view.refresh()
    assert there(view, "h1") == ["u1"]
    view.refresh()
    assert (free(view, "h1"), there(view, "h1")) == (FREE - 1, [])


@pytest.mark.parametrize("complete", [False, True])
def test_a_change_that_is_doubted_while_an_earlier_state_is_read_is_seen(cloud, view, complete):
    """Its writer had waited for the row for so long that its stamp is an old one."""

    def meanwhile():
        claim(cloud, a_claim("u1", 1))
        execute(cloud, f"UPDATE compute_nodes SET updated_at = {LONG_AGO}")
        view.distrust([1])

    view.distrust([1])
    cloud.meanwhile = meanwhile
    reload(view) if complete else view.refresh()
    view.refresh()
    assert (free(view, "h1"), there(view, "h1")) == (FREE - 2048, ["u1"])

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_view.garbage."""

import gc

import pytest

from scheduler.host_view import garbage


def test_nothing_is_collected_while_much_is_made():
    with garbage.left_alone(True):
        assert not gc.isenabled()
    with pytest.raises(KeyError), garbage.left_alone(True):
        raise KeyError
    assert gc.isenabled()
    with garbage.left_alone(False):
        assert gc.isenabled()


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        with garbage.left_alone(True):
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.weighers.cross_cell, with the figures of behaviour reference 2.3."""

import numpy as np
import pytest

from scheduler.decision.weighing import weigh_hosts
from scheduler.objects.request_spec import CellMapping, Destination
from scheduler.weighers.cross_cell import CrossCellWeigher
from tests.builders import a_request
from tests.hosts import hosts_with

X = CellMapping("X")


def a_move(**destination):
    return a_request(requested_destination=Destination(**destination))


def the_hosts():
    return hosts_with("cell_uuid", {"h1": "X", "h2": "Y", "h3": "X", "h4": None})


def test_the_worked_case():
    spec = a_move(cell=X, allow_cross_cell_move=True)
    weigher = CrossCellWeigher()
    assert weigher.applies(spec)
    assert weigher.weigh(the_hosts(), spec).tolist() == [1, -1, 1, -1]
    totals = weigh_hosts(the_hosts(), spec, [weigher], np.arange(4)).totals
    assert totals.tolist() == [1e6, 0, 1e6, 0]


def test_one_request_after_another_prefers_its_own_cell():
    table = the_hosts()
    for uuid, expected in (("X", [1, -1, 1, -1]), ("Y", [-1, 1, -1, -1]), ("Z", [-1] * 4)):
        spec = a_move(cell=CellMapping(uuid), allow_cross_cell_move=True)
        assert CrossCellWeigher().weigh(table, spec).tolist() == expected


@pytest.mark.parametrize(
    "spec", [a_request(), a_move(cell=X), a_move(allow_cross_cell_move=True), a_move()]
)
def test_all_else_weighs_nothing(spec):
    assert not CrossCellWeigher().applies(spec)
    assert CrossCellWeigher().weigh(the_hosts(), spec).tolist() == [0] * 4

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.weighing."""

import numpy as np
import pytest

from scheduler.decision.weighing import weigh_hosts
from scheduler.weighers import BaseHostWeigher
from tests.builders import a_request
from tests.hosts import hosts_with, in_aggregates

ROWS = np.arange(3)


class FreeMemory(BaseHostWeigher):
    """Weighs by free memory; negative memory is no number."""

    aggregate_key = "key"

    def weigh(self, hosts, spec):
        memory = hosts.free_ram_mb.astype(float)
        memory[memory < 0] = np.nan
        return memory


class Unscaled(FreeMemory):
    scales = False


class UpToFour(FreeMemory):
    maxval = 4.0


class FromThreeToFive(FreeMemory):
    minval, maxval = 3.0, 5.0


class UpToEight(FreeMemory):
    maxval = 8.0


class Unconcerned(FreeMemory):
    def applies(self, spec):
        return False


def totals(weigher, **free_ram_mb):
    table = hosts_with("free_ram_mb", free_ram_mb)
    return weigh_hosts(table, a_request(), [weigher], ROWS).totals.tolist()


@pytest.mark.parametrize(
    ("weigher", "expected"),
    [
        (FreeMemory(), [0.0, 1.0, 0.5]),
        (Unscaled(), [2.0, 6.0, 4.0]),
        # What is above maxval counts as maxval, and hosts that do not reach it get less than 1.
        (UpToFour(), [0.0, 1.0, 1.0]),
        (FromThreeToFive(), [0.0, 1.0, 0.5]),
        (UpToEight(), [0.0, 2 / 3, 1 / 3]),
        (Unconcerned(), [0.0, 0.0, 0.0]),
    ],
)
def test_weights_are_scaled_unless_a_weigher_wants_them_as_they_are(weigher, expected):
    assert totals(weigher, a=2, b=6, c=4) == expected


@pytest.mark.parametrize("kind", [FreeMemory, Unscaled])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_host_whose_weight_is_no_number_is_preferred_to_none(kind, sign):
    weigher = kind()
    weigher.multiplier = 2.5 * sign
    unknown, *others = totals(weigher, a=-1, b=6, c=4)
    assert unknown <= min(others)


def test_a_host_of_unknown_weight_gets_the_worst_under_its_own_multiplier():
    hosts = hosts_with("free_ram_mb", {"a": -1, "b": 6, "c": 4})
    hosts.set(0, "aggregates", in_aggregates("key", ["-3"]))
    assert weigh_hosts(hosts, a_request(), [FreeMemory()], ROWS).totals.tolist() == [-3.0, 1.0, 0.0]
    assert totals(Unscaled(), a=-1, b=-1, c=-1) == [0.0, 0.0, 0.0]


def test_what_does_not_apply_has_no_share():
    hosts = hosts_with("free_ram_mb", {"a": 1, "b": 6, "c": 4})
    assert weigh_hosts(hosts, a_request(), [Unconcerned()], ROWS).shares() == {}

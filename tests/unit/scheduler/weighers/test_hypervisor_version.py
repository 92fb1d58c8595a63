# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.weighers.hypervisor_version, with the figures of behaviour reference 2.3."""

import numpy as np
import pytest

from scheduler.decision.weighing import weigh_hosts
from scheduler.weighers.hypervisor_version import HypervisorVersionWeigher
from tests.builders import a_request
from tests.hosts import hosts_with


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([6002000, None, 8000000], [0.75025, 0, 1]),
        ([6002000, 6002000], [0, 0]),
        ([None, None], [0, 0]),
        ([None, 1, 2], [0, 0.5, 1]),
        # What is no number is no newer than the oldest.
        ([6002000, "x", 8000000, 10**400, -1], [6002001 / 8000001, 0, 1, 0, 0]),
    ],
)
def test_worked_cases(versions, expected):
    table = hosts_with("hypervisor_version", {f"h{i}": each for i, each in enumerate(versions)})
    totals = weigh_hosts(
        table, a_request(), [HypervisorVersionWeigher()], np.arange(table.size)
    ).totals
    assert totals.tolist() == pytest.approx(expected)

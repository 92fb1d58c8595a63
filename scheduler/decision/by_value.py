# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows that are told apart by one object, of which many of them share a few."""

from collections.abc import Callable
from typing import Any

import numpy as np

from scheduler.decision.host_table import HostTable, Mask


def rows_where(hosts: HostTable, name: str, holds: Callable[[Any], bool]) -> Mask:
    """Return for each row whether holds(its value of an object column), asked once per value.

    None is asked about as well. For questions that the next request asks anew; what is always the
    same question is better remembered by HostTable.derived.
    """
    answers = np.array([holds(value) for value in hosts.distinct(name)], np.bool_)
    return np.asarray(answers[hosts.codes(name)], np.bool_)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Weights from several weighers, added up."""

from collections.abc import Sequence

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.interfaces import Rows, Weigher
from scheduler.decision.scaling import Weights, scaled
from scheduler.objects.request_spec import RequestSpec


def weighed(
    hosts: HostTable, spec: RequestSpec, weighers: Sequence[Weigher], rows: Rows
) -> tuple[Weights, dict[str, Weights]]:
    """Return the total weight of each of these rows, and the share of each weigher in it.

    A single host is not weighed at all.
    """
    totals = np.zeros(len(rows))
    shares: dict[str, Weights] = {}
    if len(rows) < 2:
        return totals, shares
    hosts.candidates = np.zeros(hosts.size, np.bool_)
    hosts.candidates[rows] = True
    for weigher in weighers:
        if not weigher.applies(spec):
            continue
        multipliers = weigher.multipliers(hosts, rows)
        if not np.any(multipliers):
            continue
        raw = weigher.weigh(hosts, spec)[rows]
        if weigher.scales:
            raw = scaled(raw, weigher.minval, weigher.maxval)
        share = multipliers * raw
        shares[weigher.name] = share
        totals += share
    return totals, shares

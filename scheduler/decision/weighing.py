# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Weights from several weighers, added up."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler.decision.asking import raw_weights
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
    for weigher, multipliers in counting(hosts, spec, weighers, rows):
        raw = raw_weights(hosts, weigher, spec)
        share = _share(weigher, raw if len(rows) == len(raw) else raw[rows], multipliers)
        shares[weigher.name] = share
        totals += share
    return totals, shares


def counting(
    hosts: HostTable, spec: RequestSpec, weighers: Iterable[Weigher], rows: Rows
) -> Iterator[tuple[Weigher, float | Weights]]:
    """Yield the weighers that make a difference among these rows, with their multipliers."""
    for weigher in weighers:
        if weigher.applies(spec):
            multipliers = weigher.multipliers(hosts, rows)
            if not np.ndim(multipliers):
                multipliers = float(multipliers)
            if multipliers if isinstance(multipliers, float) else multipliers.any():
                yield weigher, multipliers


def _share(weigher: Weigher, raw: Weights, multipliers: float | Weights) -> Weights:
    """Return the multiplied weights; a host whose weight is no number gets the least there is."""
    known = np.isfinite(raw)
    weights = scaled(raw, weigher.minval, weigher.maxval) if weigher.scales else raw
    share = np.asarray(multipliers * weights)
    if known.all():
        return share
    if weigher.scales:
        return np.where(known, share, np.minimum(multipliers, 0.0))
    return np.where(known, share, np.min(share, where=known, initial=0.0))

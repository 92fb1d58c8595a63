# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Weights from several weighers, added up."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.decision.asking import raw_weights
from scheduler.decision.host_table import HostTable
from scheduler.decision.interfaces import Rows, Weigher
from scheduler.decision.plugin_calls import applies, multipliers_of
from scheduler.decision.scale import Scale, added_up
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec

_ALL = slice(None)


class Weighed(NamedTuple):
    """The total weight of each of some rows, and what it is added up from."""

    totals: Weights
    scales: Sequence[Scale] = ()

    def shares(self, positions: Rows | slice = _ALL) -> dict[str, Weights]:
        """Return the share of each weigher in the totals at these positions."""
        return {each.weigher.name: each.shares(positions) for each in self.scales}


def weighed(
    hosts: HostTable, spec: RequestSpec, weighers: Sequence[Weigher], rows: Rows
) -> Weighed:
    """Return the weights of these rows. A single host is not weighed at all."""
    if len(rows) < 2:
        return Weighed(np.zeros(len(rows)))
    hosts.candidates = np.zeros(hosts.size, np.bool_)
    hosts.candidates[rows] = True
    scales = []
    for weigher, multipliers in _counting(hosts, spec, weighers, rows):
        raw = raw_weights(hosts, weigher, spec)
        if raw is None:
            continue
        raw = raw if len(rows) == len(raw) else raw.take(rows)
        scales.append(Scale(weigher, multipliers, raw))
    return Weighed(added_up(scales, len(rows)), scales)


def _counting(
    hosts: HostTable, spec: RequestSpec, weighers: Iterable[Weigher], rows: Rows
) -> Iterator[tuple[Weigher, float | Weights]]:
    """Yield the weighers that make a difference among these rows, with their multipliers."""
    for weigher in weighers:
        if applies(weigher, spec):
            multipliers = multipliers_of(weigher, hosts, rows)
            if multipliers if isinstance(multipliers, float) else multipliers.any():
                yield weigher, multipliers

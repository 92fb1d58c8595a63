# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Why the hosts that a request is about refuse it."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from scheduler.decision import obstacles
from scheduler.decision.host_table import HostTable
from scheduler.decision.narrowing import COMPUTE_SERVICE
from scheduler.decision.outcome import Refusal
from scheduler.decision.pipeline import Plan
from scheduler.objects.request_spec import RequestSpec

Refusals = tuple[Refusal, ...]


def refusals(hosts: HostTable, spec: RequestSpec, plan: Plan) -> dict[int, Refusals]:
    """Return by row all that refuses a host, in the order in which it is asked; () if nothing does.

    Rows that the request leaves out by name, such as those outside of the aggregates that it asks
    for, are left out here as well. hosts is a working copy.
    """
    named = obstacles.by_name(hosts, spec)
    asked_for = hosts.present.copy()
    for each in named:
        if each.name != COMPUTE_SERVICE:
            asked_for &= ~each.refused
    service = [each for each in named if each.name == COMPUTE_SERVICE]
    filters = (*plan.request_filters, *plan.filters)
    found = [*service, *obstacles.of_filters(hosts, spec, filters)]
    return {
        row: tuple(each.refusal(row) for each in found if each.refused[row])
        for row in np.flatnonzero(asked_for).tolist()
    }


def limits(found: Iterable[Refusals]) -> list[tuple[str, int]]:
    """Return which filter is the first to refuse hosts, and how many; the most first."""
    return Counter(each[0].filter for each in found if each).most_common()

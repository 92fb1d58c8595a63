# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What filters say of hosts that they refuse, for tests of filters and drivers."""

from scheduler.analysis.diagnosis import filter_rejections
from scheduler.decision.pipeline import Plan
from scheduler.decision.types import Refusal
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec


def refusals(hosts: HostTable, spec: RequestSpec, plan: Plan, most: int) -> list[Refusal]:
    """Return every reason of every host, for at most that many hosts; all filters are asked."""
    found = filter_rejections(hosts, spec, (*plan.request_filters, *plan.filters))
    rows = sorted(hosts.rows())[:most]
    return [each.refusal(row) for row in rows for each in found if each.refused[row]]

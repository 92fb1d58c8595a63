# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Diagnose a refusal: every rule on all hosts, and all reasons for each host."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from inventory.errors import counted
from scheduler.base_plugin import ResourceShortfall, error_text
from scheduler.decision.pipeline import Plan
from scheduler.decision.plugin_calls import applies, mask_of
from scheduler.decision.prefilter import COMPUTE_SERVICE, rules, why_not
from scheduler.decision.types import Refusal
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import Mask, Rows
from scheduler.hosts.host_state import HostState
from scheduler.hosts.resources import KINDS
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

Refusals = tuple[Refusal, ...]
# How much of a reason is shown.
MAX_CHARACTERS = 1000


def host_name(host: str, nodename: str) -> str:
    """Return the name of a host; a node of another name follows in brackets."""
    return host if host == nodename else f"{host} ({nodename})"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The rows of a table that a filter refuses, or without one the named rule of prefilter."""

    name: str
    refused: Mask
    hosts: HostTable
    spec: RequestSpec
    rule: BaseHostFilter | None = None

    def refusal(self, row: int) -> Refusal:
        """Return why it refuses a host, in one line whatever tenants have put into their hints."""
        if self.rule is None:
            reason = why_not(self.hosts, self.spec, self.name, row)
        else:
            try:
                reason = self.rule.reason(HostState.of(self.hosts, row), self.spec)
            # The filter may be a third party's, and refuse the host only since it failed there.
            except Exception as error:
                reason = f"does not pass, without a reason: {error_text(error)}"
            reason += self._promised(row)
        line = " ".join(reason.split())[:MAX_CHARACTERS]
        return Refusal(
            self.hosts.get(row, "host"), self.hosts.get(row, "nodename"), self.name, line
        )

    def _promised(self, row: int) -> str:
        """Return how much more of what is lacking would be free, but for promises."""
        held = self.hosts.promises.get(self.hosts.get(row, "node_id"))
        lack = self.lack(row) if held else None
        for at, kind in enumerate(KINDS):
            if held and lack and lack.resource == kind.name and held.held[at]:
                more = counted(held.held[at], *kind.words)
                return f"; {more} more would be free, but for {held.holders(at)}"
        return ""

    def summary(self, rows: Rows) -> str:
        """Return why it refuses all hosts of these rows, "" where it says so host by host only."""
        if self.rule is None:
            return ""
        try:
            return self.rule.summary(self.hosts, rows, self.spec)
        # As in refusal().
        except Exception:
            return ""

    def lack(self, row: int) -> ResourceShortfall | None:
        """Return how much a host is short of, None where it is no matter of amounts."""
        if self.rule is None:
            return None
        try:
            return self.rule.lack(HostState.of(self.hosts, row), self.spec)
        # As in reason().
        except Exception:
            return None


def name_rejections(hosts: HostTable, spec: RequestSpec) -> list[Rejection]:
    """Return the rules of a request about hosts by name, which come before the filters."""
    allowed = [(COMPUTE_SERVICE, hosts.served), *rules(hosts, spec)]
    return [Rejection(name, hosts.present & ~mask, hosts, spec) for name, mask in allowed]


def filter_rejections(
    hosts: HostTable, spec: RequestSpec, filters: Sequence[BaseHostFilter]
) -> list[Rejection]:
    """Return the filters that apply to a request, with their verdicts about all hosts.

    They may set limits of hosts, which is to be a working copy.
    """
    hosts.candidates = hosts.present
    masks = ((each, mask_of(each, hosts, spec)) for each in filters if applies(each, spec))
    return [
        Rejection(each.name, np.asarray(hosts.present & ~mask, np.bool_), hosts, spec, each)
        for each, mask in masks
    ]


def refusals(hosts: HostTable, spec: RequestSpec, plan: Plan) -> dict[int, Refusals]:
    """Return by row all refusals of a host, in the order of the rules; () where it passes.

    Rows that the request excludes by name, such as those outside of the aggregates that it names,
    are left out. hosts is a working copy.
    """
    service, *named = name_rejections(hosts, spec)
    included = hosts.present.copy()
    for each in named:
        included &= ~each.refused
    filters = (*plan.request_filters, *plan.filters)
    found = [service, *filter_rejections(hosts, spec, filters)]
    return {
        row: tuple(each.refusal(row) for each in found if each.refused[row])
        for row in np.flatnonzero(included).tolist()
    }


def count_first_refusals(found: Iterable[Refusals]) -> list[tuple[str, int]]:
    """Return each filter that is the first to refuse hosts, and how many; the most first."""
    return Counter(each[0].filter for each in found if each).most_common()

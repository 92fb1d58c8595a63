# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is in the way of an instance: all rules and filters that refuse hosts, not only the first.

A decision asks one filter after the other, each about the hosts that are left. Here each of them is
asked about all hosts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.interfaces import Filter
from scheduler.decision.narrowing import COMPUTE_SERVICE, rules, why_not
from scheduler.decision.outcome import Lack, Refusal
from scheduler.decision.plugin_calls import applies, mask_of, problem
from scheduler.objects.request_spec import RequestSpec

# How much of a reason is told.
MOST_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A filter with the rows that it refuses of a table; without one, what a request says by name.

    The latter is known by the name of the rule; see narrowing.
    """

    name: str
    refused: Mask
    hosts: HostTable
    spec: RequestSpec
    rule: Filter | None = None

    def refusal(self, row: int) -> Refusal:
        """Return why it refuses a host."""
        get = self.hosts.get
        return Refusal(get(row, "host"), get(row, "nodename"), self.name, self.reason(row))

    def reason(self, row: int) -> str:
        """Return the reason in one line, whatever a tenant has put into names and hints."""
        return " ".join(self._words(row).split())[:MOST_CHARACTERS]

    def lack(self, row: int) -> Lack | None:
        """Return of what a host has too little, None where it is no matter of amounts."""
        if self.rule is None:
            return None
        try:
            return self.rule.lack(HostState.of(self.hosts, row), self.spec)
        # See below.
        except Exception:
            return None

    def _words(self, row: int) -> str:
        if self.rule is None:
            return why_not(self.hosts, self.spec, self.name, row)
        try:
            return self.rule.reason(HostState.of(self.hosts, row), self.spec)
        # The filter may be a third party's, and refuse the host only since it failed there.
        except Exception as error:
            return f"does not pass, without a reason: {problem(error)}"


def by_name(hosts: HostTable, spec: RequestSpec) -> list[Obstacle]:
    """Return what a request says about hosts by name; all of it comes before the filters."""
    allowed = [(COMPUTE_SERVICE, hosts.served), *rules(hosts, spec)]
    return [Obstacle(name, hosts.present & ~mask, hosts, spec) for name, mask in allowed]


def of_filters(hosts: HostTable, spec: RequestSpec, filters: Sequence[Filter]) -> list[Obstacle]:
    """Return the filters that have anything to say about a request, asked about all hosts.

    They may set limits of hosts, which is to be a working copy.
    """
    hosts.candidates = hosts.present
    asked = ((each, mask_of(each, hosts, spec)) for each in filters if applies(each, spec))
    return [
        Obstacle(each.name, np.asarray(hosts.present & ~mask, np.bool_), hosts, spec, each)
        for each, mask in asked
    ]

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Drivers decide for whole requests. This is the base class for all of them."""

from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision
from scheduler.decision.pipeline import Plan, Request


class BaseDriver:
    """A way to decide, given the plug-ins and settings of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def decide(self, hosts: HostTable, request: Request) -> Decision:
        """Return the decision for a request. hosts is a working copy that may be consumed."""
        raise NotImplementedError

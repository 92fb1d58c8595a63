# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The driver for tests of those who call a scheduler."""

from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision
from scheduler.decision.pipeline import Request
from scheduler.drivers import BaseDriver
from scheduler.drivers.outcomes import placed


class FakeScheduler(BaseDriver):
    """Decides nothing: the answer to any request is empty, which is no failure."""

    def decide(self, hosts: HostTable, request: Request) -> Decision:
        return placed(hosts, request, ())

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Why a question of an operator about hosts, or an order, is refused.

OperationRefused
+-- Unknown         there is no host, service or hypervisor of that name
+-- Malformed       an argument that no host could make sense of; argument names it
+-- InUse           the host is still needed, or still there
+-- NotReported     the agent tells nothing of the kind
"""


class OperationRefused(Exception):
    """Nothing was done; the text says why and what to do, in one line."""


class Unknown(OperationRefused):
    """What was asked for does not exist."""


class Malformed(OperationRefused):
    """An argument cannot be what it is."""

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"{argument}: {problem}")
        self.argument = argument
        self.problem = problem


class InUse(OperationRefused):
    """What should go is in use."""


class NotReported(OperationRefused):
    """Nobody knows."""

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Why a question of an operator, or an order, is refused.

OperationRefused
+-- Unknown         there is no host, aggregate, group or other thing of that name
+-- Malformed       an argument that means nothing, or several things; argument names it
+-- InUse           what should go is needed or still there; what should be would be in its way
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
    """What there is stands against it."""


class NotReported(OperationRefused):
    """Nobody knows."""

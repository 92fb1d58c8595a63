# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Drivers decide for whole requests. This is the base class for all of them."""

from collections.abc import Mapping
from typing import Any, ClassVar

from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.settings import Options, take


class BaseDriver:
    """A way to decide, given the plug-ins and settings of a plan.

    Settings are class attributes with their defaults; options says where in the configuration
    their values are found, as (attribute, group, option) each. parts are settings as well: options
    that name other drivers, which are loaded. view_max_age, in seconds, is how old the view of the
    hosts may be, None for what the configuration says. settings are what somebody chose of all that
    decides, by group and option, to be kept with each decision.
    """

    options: ClassVar[Options] = ()
    parts: ClassVar[Options] = ()
    view_max_age: float | None = None

    def __init__(self, plan: Plan, **settings: Any) -> None:
        self.plan = plan
        self.settings: Mapping[str, Mapping[str, Any]] = {}
        take(self, (*self.options, *self.parts), settings)

    def decide(self, hosts: HostTable, request: Request) -> Decision:
        """Return the decision for a request. hosts is a working copy that may be consumed."""
        raise NotImplementedError

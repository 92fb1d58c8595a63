# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Drivers decide for whole requests. This is the base class for all of them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from scheduler.base_plugin import Options, apply_options
from scheduler.decision.pipeline import Plan, Request, placed, refused
from scheduler.decision.types import Decision, Placement, Step
from scheduler.hosts.columns import Mask
from scheduler.hosts.host_state import HostState, candidate
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# All that a driver is made of.
__all__ = ["BaseDriver", "placed", "placement", "refused", "step"]


class BaseDriver:
    """A way to decide, given the plug-ins and settings of a plan.

    Settings are class attributes with their defaults; options says where they are configured, as
    (attribute, group, option) each. parts are options that name other drivers, which are loaded as
    settings. view_max_age is the age in seconds up to which the host cache is used, None for that
    of the configuration. settings are the configured options, by group, saved with each decision.
    """

    options: ClassVar[Options] = ()
    parts: ClassVar[Options] = ()
    view_max_age: float | None = None

    def __init__(self, plan: Plan, **settings: Any) -> None:
        self.plan = plan
        self.settings: Mapping[str, Mapping[str, Any]] = {}
        apply_options(self, (*self.options, *self.parts), settings)

    def decide(self, hosts: HostTable, request: Request) -> Decision:
        """Return the decision for a request. hosts is a working copy that may be consumed."""
        raise NotImplementedError


def step(name: str, before: Mask, after: Mask) -> Step:
    """Return the step from these hosts to those."""
    return Step(name, int(np.count_nonzero(before)), int(np.count_nonzero(after)))


def placement(
    hosts: HostTable,
    row: int,
    spec: RequestSpec,
    steps: Sequence[Step],
    *,
    weight: float = 0.0,
    limits: Mapping[str, Any] | None = None,
) -> Placement:
    """Place an instance on the host of a row: return that, with limits, after it is consumed."""
    chosen = candidate(hosts, row, dict(limits or {}), weight)
    taken = HostState.of(hosts, row).consume_from_request(spec)
    return Placement(spec.instance_uuid, chosen, tuple(steps), (), taken=taken)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decisions as drivers make them that choose hosts without weighing them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scheduler.decision.host_state import HostState, candidate
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.outcome import Decision, Placement, Shortage, Step
from scheduler.decision.pipeline import Request
from scheduler.objects.request_spec import RequestSpec


def step(name: str, before: Mask, after: Mask) -> Step:
    """Return the step that led from these hosts to those."""
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
    """Let an instance go to the host of a row, within limits if there are any; consume it there."""
    state = HostState.of(hosts, row)
    chosen = candidate(hosts, row, dict(limits or {}), weight)
    taken = state.consume_from_request(spec)
    return Placement(spec.instance_uuid, chosen, tuple(steps), (), taken=taken)


def placed(hosts: HostTable, request: Request, placements: Sequence[Placement]) -> Decision:
    """Return the decision that all instances go somewhere."""
    warnings = tuple(hosts.warnings)
    return Decision(tuple(placements), None, warnings, request.seed, len(hosts))


def refused(
    hosts: HostTable, request: Request, steps: Sequence[Step], reason: str, index: int = 0
) -> Decision:
    """Return the decision that no host was left for the instance at this place of the request."""
    shortage = Shortage(index, request.instance_uuids[index], tuple(steps), reason)
    return Decision((), shortage, tuple(hosts.warnings), request.seed, len(hosts))

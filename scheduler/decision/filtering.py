# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Candidates that pass several filters, one after the other."""

from collections.abc import Sequence

import numpy as np

from scheduler.decision.asking import passing
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.interfaces import Filter
from scheduler.decision.outcome import Step
from scheduler.decision.plugin_calls import about_itself, applies
from scheduler.objects.request_spec import RequestSpec


def filtered(
    hosts: HostTable,
    spec: RequestSpec,
    filters: Sequence[Filter],
    candidates: Mask,
    index: int = 0,
) -> tuple[Mask, tuple[Step, ...]]:
    """Return the candidates that pass all filters, and a step per filter that was asked.

    A forced host is not asked any filter, and a rebuild only those that concern the image.
    """
    return asked_in_turn(hosts, spec, asked_for(filters, spec, index), candidates)


def asked_for(filters: Sequence[Filter], spec: RequestSpec, index: int) -> list[Filter]:
    """Return the filters that are asked for the instance at this place of a request."""
    if spec.is_rebuild:
        filters = [each for each in filters if each.RUN_ON_REBUILD]
    elif spec.has_forced_target:
        filters = ()
    return [
        each for each in filters if about_itself(each.run_filter_for_index, index, default=True)
    ]


def asked_in_turn(
    hosts: HostTable, spec: RequestSpec, filters: Sequence[Filter], candidates: Mask
) -> tuple[Mask, tuple[Step, ...]]:
    """Return the candidates that pass all of these filters, until none is left."""
    steps: list[Step] = []
    left = int(np.count_nonzero(candidates))
    for each in filters:
        before = left
        if applies(each, spec):
            hosts.candidates = candidates
            candidates = candidates & passing(hosts, each, spec)
            left = int(np.count_nonzero(candidates))
        steps.append(Step(each.name, before, left))
        if not left:
            break
    return candidates, tuple(steps)

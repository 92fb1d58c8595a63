# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An arrival of a trace: a request, when it comes, and when its instances leave."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from scheduler.decision.pipeline import Request
from scheduler.hosts.flavor_mix import Size
from scheduler.objects.request_spec import RequestSpec

FOREVER = float("inf")


class TraceError(ValueError):
    """A trace that cannot be run; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that comes at a time in seconds, whichever the trace counts from.

    leaves_at are the times at which its instances leave, by their uuids; others stay.
    """

    time: float
    request: Request
    leaves_at: Mapping[str, float]

    @property
    def size(self) -> Size:
        spec = self.request.spec
        return spec.vcpus, spec.memory_mb, spec.disk_mb


def make_arrival(
    time: float, spec: RequestSpec, number: int, instances: int = 1, lifetime: float = FOREVER
) -> Arrival:
    """Return an arrival of new instances, whose uuids are made of its number in the trace."""
    # As long as an uuid, and no instance of a cloud has it.
    uuids = [str(UUID(int=(number << 32) | index)) for index in range(instances)]
    leaves_at = dict.fromkeys(uuids, time + lifetime) if lifetime < FOREVER else {}
    return Arrival(time, Request(spec.for_instance(uuids[0]), uuids, seed=number), leaves_at)

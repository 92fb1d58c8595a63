# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What came out of a simulation."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from scheduler.hosts.flavor_mix import Size
from scheduler.operators.fleet_usage import FleetUsage


@dataclass(frozen=True, slots=True)
class Sample:
    """How the fleet was used at a time of the trace, in seconds, after a number of requests."""

    time: float
    requests: int
    refused: int
    usage: FleetUsage


@dataclass(slots=True)
class SimulationResult:
    """Counts of requests and instances, samples over time, and the first refusal.

    refused_sizes are the sizes of refused instances, with how many there were. as_decided is how
    many requests had the very answer that a scheduler gave, None where the trace does not say that.
    seconds is what the run took.
    """

    requests: int = 0
    refused: int = 0
    placed_instances: int = 0
    refused_sizes: Counter[Size] = field(default_factory=Counter)
    first_refusal: Sample | None = None
    samples: list[Sample] = field(default_factory=list)
    as_decided: int | None = None
    seconds: float = 0.0

    @property
    def end(self) -> FleetUsage:
        return self.samples[-1].usage

    def document(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "refused": self.refused,
            "placed_instances": self.placed_instances,
            "refused_sizes": [*self._refused_sizes()],
            "as_decided": self.as_decided,
            "first_refusal": None if self.first_refusal is None else asdict(self.first_refusal),
            "samples": [asdict(each) for each in self.samples],
            "seconds": round(self.seconds, 3),
        }

    def _refused_sizes(self) -> Iterator[dict[str, int]]:
        for (vcpus, memory_mb, disk_mb), count in self.refused_sizes.most_common():
            yield {"vcpus": vcpus, "memory_mb": memory_mb, "disk_mb": disk_mb, "instances": count}

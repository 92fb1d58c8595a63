# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Made-up traces: flavors are drawn by their weights, arrivals and departures at random."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from scheduler.hosts.flavor_mix import FlavorMix, Size
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.simulation.arrival import FOREVER, Arrival, make_arrival


@dataclass(frozen=True, slots=True)
class SyntheticTrace:
    """A number of arrivals of one instance each, at a mean rate per hour.

    lifetime is the mean time in seconds that instances stay; both are drawn from an exponential
    distribution.
    """

    mix: FlavorMix
    arrivals: int
    rate: float = 60.0
    lifetime: float = FOREVER

    def draw(self, seed: int) -> Iterator[Arrival]:
        """Yield the arrivals; the same seed gives the same ones."""
        chance, time = Random(seed), 0.0
        specs = [RequestSpec(flavor_of(each.size)) for each in self.mix]
        shares = [each.share for each in self.mix]
        for number in range(self.arrivals):
            time += chance.expovariate(self.rate / 3600)
            (spec,) = chance.choices(specs, shares)
            stays = chance.expovariate(1 / self.lifetime) if self.lifetime < FOREVER else FOREVER
            yield make_arrival(time, spec, number, lifetime=stays)


def flavor_of(size: Size) -> Flavor:
    """Return a flavor of this size; what is less than a GB of disk is swap."""
    vcpus, memory_mb, disk_mb = size
    return Flavor(vcpus, memory_mb, disk_mb // 1024, swap=disk_mb % 1024)

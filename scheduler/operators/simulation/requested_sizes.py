# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What has been asked for in a simulation, as schedulers learn it from saved decisions."""

from collections.abc import Mapping

from scheduler.hosts.flavor_mix import FlavorMix, Size, learned_mix

# A mix is found after a part of the time so far, and of a half-life. Schedulers find one each time
# that the least of these is over, for which weights of all hosts have to be computed again.
_PART = 1 / 8
_LEAST = 600.0


class RequestedSizes:
    """Counts sizes as they are asked for, with weights that halve in half_life seconds.

    before is the mix that was known at first: it counts as the instances that there are do.
    """

    def __init__(self, half_life: float, before: FlavorMix = ()) -> None:
        self._half_life = half_life
        self._before: Mapping[Size, float] = {each.size: each.share for each in before}
        self._weights: dict[Size, float] = {}
        self._added: dict[Size, int] = {}
        self._began: float | None = None
        self._known_at = 0.0

    def add(self, size: Size, instances: int) -> None:
        self._added[size] = self._added.get(size, 0) + instances

    def mix_at(self, time: float) -> FlavorMix | None:
        """Return the mix at a time, None where it is too early to find another one."""
        if self._began is None:
            self._began = self._known_at = time
            return None
        passed = time - self._known_at
        soon = max(_LEAST, _PART * (time - self._began))
        if passed < min(soon, _PART * self._half_life):
            return None
        for size, weight in self._weights.items():
            self._weights[size] = weight * 0.5 ** (passed / self._half_life)
        for size, instances in self._added.items():
            self._weights[size] = self._weights.get(size, 0.0) + instances
        self._added.clear()
        self._known_at = time
        return learned_mix(self._weights, self._before)

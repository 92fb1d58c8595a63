# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts: scale the raw weights of each weigher, multiply and sum them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scheduler.decision import picker
from scheduler.decision.picker import Choice
from scheduler.decision.plugin_calls import ask_weighers, ask_weighers_guarded
from scheduler.decision.types import WeighedHost
from scheduler.hosts.columns import Rows, Weights
from scheduler.hosts.host_state import Candidate, candidate
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher


class Weighed(NamedTuple):
    """A weigher with its multiplier for all hosts of a ranking, or one for each of them."""

    weigher: BaseHostWeigher
    multiplier: float | Weights

    def at(self, positions: Rows) -> "Weighed":
        """Return the same for the hosts at these positions."""
        if isinstance(self.multiplier, float):
            return self
        return Weighed(self.weigher, self.multiplier[positions])

    def shares(self, raw: Weights, scale_range: "Range") -> Weights | None:
        """Return the shares of hosts in their totals, None where all are 0.

        A raw weight that is not finite gets the least share.
        """
        if scale_range.is_finite:
            return self._shares(raw, scale_range)
        finite = np.isfinite(raw)
        shares = self._shares(np.where(finite, raw, 0.0), scale_range)
        if shares is None:
            shares = np.zeros(len(raw))
        if self.weigher.scales:
            return np.where(finite, shares, np.minimum(self.multiplier, 0.0))
        return np.where(finite, shares, np.min(shares, where=finite, initial=0.0))

    def share(self, raw: float, position: int, scale_range: "Range") -> float:
        """Return shares() of a single host, at this position, equal to the last bit."""
        multiplier = self.multiplier
        if not isinstance(multiplier, float):
            multiplier = float(multiplier[position])
        if not self.weigher.scales:
            return multiplier * raw
        low, high = scale_range.low, scale_range.high
        shares: float = scale(min(max(raw, low), high), low, high)
        return shares * multiplier

    def _shares(self, raw: Weights, scale_range: "Range") -> Weights | None:
        if not self.weigher.scales:
            return np.asarray(self.multiplier * raw)
        low, high, clips, _ = scale_range
        if high <= low:
            # All are equal, or below minval and so equal once they are clamped.
            return None
        if clips:
            raw = np.minimum(np.maximum(raw, low), high)
        shares: Weights = scale(raw, low, high)
        if not isinstance(self.multiplier, float) or self.multiplier != 1.0:
            shares *= self.multiplier
        return shares


class Range(NamedTuple):
    """The range that becomes 0 to 1: minval to maxval of the weigher, else the extremes.

    clips is set where raw weights lie outside of it, is_finite where all of them are finite.
    """

    low: float
    high: float
    clips: bool
    is_finite: bool


def scale(raw: Any, low: float, high: float) -> Any:
    """Return (raw - low) / (high - low) for numbers from low to high, which is above low."""
    if not math.isfinite(high - low):
        # The difference of two huge numbers is infinite; that of their halves is not.
        raw, low, high = raw / 2, low / 2, high / 2
    # Most ranges begin at 0, and a step less saves a sixth of the cost.
    return (raw - low if low else raw) / (high - low)


class Ranking:
    """Hosts with their total weights: the sum of the shares of all weighers.

    rows has the rows of the hosts, raw the raw weights: a row for each weigher, a column for each
    host. outside has the least and the greatest raw weight of each weigher among hosts that are no
    part of the ranking, but of the range to which weights are scaled.
    """

    def __init__(
        self,
        rows: Rows,
        weighed: Sequence[Weighed] = (),
        raw: Weights | None = None,
        outside: tuple[Weights, Weights] | None = None,
    ) -> None:
        self.rows = rows
        self.weighed = weighed
        self.raw = np.zeros((0, len(rows))) if raw is None else raw
        self._outside = outside
        self.ranges = self._measure()
        self._shares = [
            each.shares(*more) for each, *more in zip(weighed, self.raw, self.ranges, strict=True)
        ]
        self.totals = self._sum()

    @property
    def is_finite(self) -> bool:
        """Whether all raw weights are finite."""
        return all(each.is_finite for each in self.ranges)

    def change(self, position: int, raw: Sequence[float]) -> None:
        """Set the raw weights of one host."""
        is_moved = False
        for at, (before, now) in enumerate(zip(self.raw[:, position].tolist(), raw, strict=True)):
            if before == now:
                continue
            self.raw[at, position] = now
            known, each = self.ranges[at], self.weighed[at]
            low, high = known.low, known.high
            # Only a weight at one of its ends can move the range.
            if not (low < before < high and low < now < high):
                self.ranges[at] = self._measure_one(at)
            if self.ranges[at] != known:
                self._shares[at], is_moved = each.shares(self.raw[at], self.ranges[at]), True
            elif (shares := self._shares[at]) is not None:
                shares[position] = each.share(now, position, known)
        if is_moved:
            self.totals = self._sum()
        else:
            own = [float(each[position]) for each in self._shares if each is not None]
            self.totals[position] = sum(own)

    def extremes(self, positions: Rows) -> tuple[Weights, Weights]:
        """Return the least and the greatest raw weight of each weigher among these hosts."""
        raw = self.raw[:, positions]
        return raw.min(axis=1, initial=np.inf), raw.max(axis=1, initial=-np.inf)

    def part(self, positions: Rows, outside: tuple[Weights, Weights] | None = None) -> "Ranking":
        """Return a ranking of the hosts at these positions."""
        weighed = [each.at(positions) for each in self.weighed]
        return Ranking(self.rows[positions], weighed, self.raw[:, positions], outside)

    def shares(self) -> dict[str, Weights]:
        """Return the share of each weigher in the total of each host."""
        return {
            each.weigher.name: np.zeros(len(self.rows)) if found is None else found
            for each, found in zip(self.weighed, self._shares, strict=True)
        }

    def weighed_host(self, node: tuple[str, str], position: int) -> WeighedHost:
        """Return the host at a position, a node, with the share of each weigher in its total."""
        shares = {
            each.weigher.name: 0.0 if found is None else float(found[position])
            for each, found in zip(self.weighed, self._shares, strict=True)
        }
        return WeighedHost(*node, float(self.totals[position]), shares)

    def remaining(self) -> Rows:
        """Return the rows of all hosts."""
        return self.rows

    def choose(self, choice: Choice) -> int:
        """Return the position of the chosen host."""
        return choice.among(self.totals)

    def best_first(self, count: int) -> list[int]:
        """Return the positions of the count best hosts, the first of equal ones first."""
        return picker.best_first(self.totals, count)

    def candidate(self, hosts: HostTable, position: int) -> Candidate:
        """Return the host at a position, with its limits and its weight."""
        row = int(self.rows[position])
        return candidate(hosts, row, hosts.limits.on(row), float(self.totals[position]))

    def _measure(self) -> list[Range]:
        """Return the range of each weigher."""
        if not self.weighed:
            return []
        least, most = np.minimum.reduce(self.raw, axis=1), np.maximum.reduce(self.raw, axis=1)
        if self._outside is not None:
            least, most = np.minimum(least, self._outside[0]), np.maximum(most, self._outside[1])
        extremes = zip(least.tolist(), most.tolist(), strict=True)
        return [self._range(at, *each) for at, each in enumerate(extremes)]

    def _measure_one(self, at: int) -> Range:
        """Return the range of one weigher."""
        least, most = float(self.raw[at].min()), float(self.raw[at].max())
        if self._outside is not None:
            least = min(least, float(self._outside[0][at]))
            most = max(most, float(self._outside[1][at]))
        return self._range(at, least, most)

    def _range(self, at: int, least: float, most: float) -> Range:
        weigher = self.weighed[at].weigher
        is_finite = math.isfinite(least) and math.isfinite(most)
        if not is_finite:
            known = self.raw[at][np.isfinite(self.raw[at])]
            least, most = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        low = least if weigher.minval is None else weigher.minval
        high = most if weigher.maxval is None else weigher.maxval
        return Range(low, high, least < low or most > high, is_finite)

    def _sum(self) -> Weights:
        totals = np.zeros(len(self.rows))
        for each in self._shares:
            if each is not None:
                totals += each
        return totals


def weigh_hosts(
    hosts: HostTable, spec: RequestSpec, weighers: Sequence[BaseHostWeigher], rows: Rows
) -> Ranking:
    """Return the weights of these rows. A single host is not weighed at all."""
    if len(rows) < 2:
        return Ranking(rows)
    if len(rows) == hosts.size:
        hosts.candidates = hosts.present
    else:
        hosts.candidates = np.zeros(hosts.size, np.bool_)
        hosts.candidates[rows] = True
    try:
        asked = ask_weighers(weighers, hosts, spec, rows)
    except Exception:
        # A plug-in has failed: it is left out, with a warning that names it.
        asked = ask_weighers_guarded(weighers, hosts, spec, rows)
    raw = np.empty((len(asked), len(rows)))
    for at, (_, _, weights) in enumerate(asked):
        raw[at] = weights if len(weights) == len(rows) else weights.take(rows)
    return Ranking(rows, [Weighed(weigher, multiplier) for weigher, multiplier, _ in asked], raw)

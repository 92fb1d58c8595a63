# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Weighers prefer some hosts over others. These are the base classes for all of them."""

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any, ClassVar

import numpy as np

from inventory.objects.aggregate import Aggregate
from scheduler.base_plugin import BasePlugin, error_text
from scheduler.hosts import aggregate_metadata
from scheduler.hosts.columns import Rows, Weights
from scheduler.hosts.host_state import HostState
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# All that most of them need.
__all__ = ["BaseHostWeigher", "ColumnWeigher", "HostTable", "RequestSpec", "Weights"]


class BaseHostWeigher(BasePlugin):
    """A number for each host; higher is better where the multiplier is positive.

    Override weigh() to weigh all hosts at once, or _weigh_object() to weigh one, as weighers
    written for Nova do. The numbers of the remaining hosts are scaled to 0..1, with minval and
    maxval as fixed ends where they are given, and multiplied; a multiplier of 0 leaves the weigher
    out. aggregate_key is the metadata key by which aggregates change the multiplier of their hosts.

    sign is -1 where a positive multiplier means that less is better. scales says whether the
    numbers are scaled at all, in_all whether all_weighers in the configuration has the weigher.
    """

    minval: float | None = None
    maxval: float | None = None
    multiplier: float = 1.0
    sign: ClassVar[float] = 1.0
    scales: ClassVar[bool] = True
    in_all: ClassVar[bool] = True
    aggregate_key: ClassVar[str | None] = None
    # Whether nothing but the metadata of aggregates changes the multiplier of a host.
    has_plain_multiplier: ClassVar[bool] = True
    # Whether weight_multiplier() takes no host, as up to Nova 18, but is for all of them.
    has_one_multiplier: ClassVar[bool] = False

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        base = BaseHostWeigher
        cls.has_one_multiplier = not _takes_host(cls.weight_multiplier)
        cls.has_plain_multiplier = (
            cls.weight_multiplier is base.weight_multiplier and cls.multipliers is base.multipliers
        )

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        """Return the raw weight of each row; rows that are no candidates may have any."""
        raw = np.zeros(hosts.size)
        for row in np.flatnonzero(hosts.candidates).tolist():
            host = HostState.of(hosts, row)
            try:
                raw[row] = float(self._weigh_object(host, spec))
            # One weigher's mistake about one host must not fail the request for all hosts.
            except Exception as error:
                raw[row] = np.nan
                hosts.warn(
                    f"{self.name} puts {host.host} ({host.nodename}) last since it failed there:"
                    f" {error_text(error)}"
                )
        return raw

    def _weigh_object(self, host_state: HostState, weight_properties: RequestSpec) -> float:
        """Return the raw weight of one host."""
        if type(self).weigh is BaseHostWeigher.weigh:
            raise NotImplementedError(f"{self.name} overrides neither weigh() nor _weigh_object()")
        return float(self.weigh(host_state.table, weight_properties)[host_state.row])

    def weight_multiplier(self, host_state: HostState) -> float:
        """Return the multiplier of one host: the smallest of its aggregates, else the setting."""
        if self.aggregate_key is None:
            return self.sign * self.multiplier
        return self.sign * aggregate_metadata.smallest(
            host_state.aggregates, self.aggregate_key, self.multiplier, host_state.table.warn
        )

    def multipliers(self, hosts: HostTable, rows: Rows) -> float | Weights:
        """Return the multiplier of all these rows, or one for each where they differ."""
        if self.has_one_multiplier:
            of_all: Any = self.weight_multiplier
            return float(of_all())
        if type(self).weight_multiplier is not BaseHostWeigher.weight_multiplier:
            return np.array([self.weight_multiplier(HostState.of(hosts, row)) for row in rows])
        if self.aggregate_key is None:
            return self.sign * self.multiplier
        key, sign, own, warn = self.aggregate_key, self.sign, self.multiplier, hosts.warn

        def of_host(aggregates: Iterable[Aggregate] | None) -> float:
            return sign * aggregate_metadata.smallest(aggregates, key, own, warn)

        found = hosts.memo("aggregates", ("multiplier", key, sign, own), of_host, float)
        return found if len(rows) == hosts.size else found.take(rows)


def _takes_host(weight_multiplier: Callable[..., float]) -> bool:
    try:
        signature(weight_multiplier).bind("self", "host_state")
    except TypeError:
        return False
    return True


class ColumnWeigher(BaseHostWeigher):
    """Weighs hosts by the one numeric column that reads names."""

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        assert self.reads is not None
        return np.asarray(getattr(hosts, self.reads[0]))

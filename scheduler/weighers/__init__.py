# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Weighers prefer some hosts over others. This is the base class for all of them."""

from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np

from scheduler.decision import aggregate_metadata
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable
from scheduler.decision.interfaces import Rows
from scheduler.decision.plugin_calls import problem
from scheduler.decision.scaling import Weights
from scheduler.decision.settings import Options, take
from scheduler.objects.request_spec import RequestSpec


class BaseHostWeigher:
    """A number for each host; higher is better where the multiplier is positive.

    Override weigh() to weigh all hosts at once, or _weigh_object() to weigh one, as weighers
    written for Nova do. The numbers are scaled to 0..1 over the hosts that are left (see scaling),
    minval and maxval being fixed ends where they are given, and multiplied. A multiplier of 0
    leaves the weigher out. aggregate_key names the metadata by which aggregates change the
    multiplier for their hosts. sign is -1 where a positive multiplier means that less is better.

    A weigher that defines question(), and in reads which columns it looks at, need not weigh hosts
    again that have not changed.

    scales says whether the numbers are scaled at all, in_all whether the weigher runs where the
    configuration asks for all_weighers.

    Settings are class attributes with their defaults; options says where in the configuration
    their values are found, as (attribute, group, option) each.
    """

    minval: float | None = None
    maxval: float | None = None
    multiplier: float = 1.0
    sign: ClassVar[float] = 1.0
    scales: ClassVar[bool] = True
    in_all: ClassVar[bool] = True
    aggregate_key: ClassVar[str | None] = None
    reads: ClassVar[tuple[str, ...] | None] = None
    options: ClassVar[Options] = ()

    def __init__(self, **settings: Any) -> None:
        take(self, self.options, settings)

    @property
    def name(self) -> str:
        """The name under which the weigher appears in decisions."""
        return type(self).__name__

    def applies(self, spec: RequestSpec) -> bool:
        """Return False when the request alone shows that all hosts weigh 0."""
        return True

    def columns_read(self, spec: RequestSpec) -> tuple[str, ...] | None:
        """Return the columns that weigh() looks at for this request, None for any."""
        return self.reads

    def question(self, spec: RequestSpec) -> Hashable | None:
        """Return what of the request the weights depend on; see BaseHostFilter.question().

        The multipliers may depend on the aggregates of a host besides.
        """
        return None

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        """Return the raw weight of each row; those of rows that are no candidates do not count."""
        raw = np.zeros(hosts.size)
        for row in np.flatnonzero(hosts.candidates).tolist():
            raw[row] = self._weight(HostState.of(hosts, row), spec)
        return raw

    def _weigh_object(self, host_state: HostState, weight_properties: RequestSpec) -> float:
        """Return the raw weight of one host."""
        if type(self).weigh is BaseHostWeigher.weigh:
            raise NotImplementedError(f"{self.name} overrides neither weigh() nor _weigh_object()")
        return float(self.weigh(host_state.table, weight_properties)[host_state.row])

    def _weight(self, host: HostState, spec: RequestSpec) -> float:
        try:
            return float(self._weigh_object(host, spec))
        # One weigher's mistake about one host must not fail the request for all hosts.
        except Exception as error:
            host.table.warn(
                f"{self.name} puts {host.host} ({host.nodename}) last since it failed there:"
                f" {problem(error)}"
            )
            return float("nan")

    def weight_multiplier(self, host_state: HostState) -> float:
        """Return the multiplier for one host: its aggregates' smallest, else the configured."""
        if self.aggregate_key is None:
            return self.sign * self.multiplier
        return self.sign * aggregate_metadata.smallest(
            host_state.aggregates, self.aggregate_key, self.multiplier, host_state.table.warn
        )

    def multipliers(self, hosts: HostTable, rows: Rows) -> float | Weights:
        """Return the multiplier of all these rows, or one for each where they differ."""
        if type(self).weight_multiplier is not BaseHostWeigher.weight_multiplier:
            return np.array([self.weight_multiplier(HostState.of(hosts, row)) for row in rows])
        if self.aggregate_key is None:
            return self.sign * self.multiplier
        column = aggregate_metadata.column(hosts, self.aggregate_key, self.multiplier)
        return self.sign * (self.multiplier if column is None else column[rows])

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What filters and weighers say of hosts after further instances, computed for many at once."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.base_plugin import BasePlugin
from scheduler.decision.plugin_calls import columns_of, verdicts, weights_of
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import Rows, Weights
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher

# The largest number of further instances to look ahead for a host that takes one after the other.
_MAX_AHEAD = 32


class LookaheadStep(NamedTuple):
    """A host after some instance: its limits, and its raw weight from each weigher.

    refused_by is the first filter that refuses another instance there.
    """

    refused_by: BaseHostFilter | None
    limits: dict[str, float]
    raw: tuple[float, ...]


class Lookahead:
    """What rows of a table become by further instances, all of which consume the same.

    All filters and weighers must declare their inputs (see plugin_calls). changes are those of the
    numeric columns of a host that takes an instance. hosts, to be replaced for each request, has
    the instances placed before.
    """

    def __init__(
        self,
        hosts: HostTable,
        spec: RequestSpec,
        filters: Sequence[BaseHostFilter],
        weighers: Sequence[BaseHostWeigher],
        changes: Mapping[str, int],
    ) -> None:
        self.hosts = hosts
        # For an instance that is on no host yet.
        self._spec = spec.for_instance(None)
        self._filters = filters
        self._weighers = weighers
        self._changes = changes
        plugins: list[BasePlugin] = [*filters, *weighers]
        self._columns = {name for each in plugins for name in columns_of(each, spec) or ()}
        self._ahead: dict[int, deque[LookaheadStep]] = {}
        # The number of instances, besides those in the table, up to which rows were computed.
        self._known: dict[int, int] = {}
        self._calls: dict[int, int] = {}

    def after(self, row: int, likely: Callable[[], Iterable[int]]) -> LookaheadStep:
        """Return the state of a row after one more instance.

        likely returns rows that may be next to take one: they are computed in the same go.
        """
        ahead = self._ahead.get(row)
        if not ahead:
            others = [each for each in likely() if each != row and not self._ahead.get(each)]
            ahead = self._compute(row, others)
        return ahead.popleft()

    def count(self, row: int, instances: int) -> None:
        """Note that the table has so many of the instances after which a row was computed."""
        self._known[row] = self._known.get(row, 0) - instances

    def forget(self, row: int) -> None:
        """Drop what was computed for a row, which has changed in another way."""
        for each in (self._ahead, self._known, self._calls):
            each.pop(row, None)

    def _compute(self, row: int, others: list[int]) -> deque[LookaheadStep]:
        count = min(2 ** self._calls.get(row, 0), _MAX_AHEAD)
        self._calls[row] = self._calls.get(row, 0) + 1
        rows = [row] * count + others
        times = []
        for each in rows:
            self._known[each] = self._known.get(each, 0) + 1
            times.append(self._known[each])
        found = self._steps(np.array(rows, np.int64), np.array(times, np.int64))
        for other, step in zip(others, found[count:], strict=True):
            self._ahead[other] = deque([step])
        self._ahead[row] = deque(found[:count])
        return self._ahead[row]

    def _steps(self, rows: Rows, times: Rows) -> list[LookaheadStep]:
        part = self.hosts.part(rows, self._columns, self._changes, times)
        refused: list[BaseHostFilter | None] = [None] * len(rows)
        limits: dict[str, list[float]] = {}
        for rule in self._filters:
            passes, columns = verdicts(rule, self._spec, part)
            limits |= {name: column.tolist() for name, column in columns.items()}
            for at in np.flatnonzero(~passes).tolist():
                refused[at] = refused[at] or rule
        raw = np.array([self._raw(each, part) for each in self._weighers])
        weights = raw.reshape(len(self._weighers), len(rows)).T.tolist()
        return [
            LookaheadStep(refused[at], {name: each[at] for name, each in limits.items()}, (*raw,))
            for at, raw in enumerate(weights)
        ]

    def _raw(self, weigher: BaseHostWeigher, part: HostTable) -> Weights:
        """Return the raw weights of these rows, NaN where the weigher fails.

        The next instance is decided on all hosts then, where a weigher that fails is left out.
        """
        try:
            return weights_of(weigher, part, self._spec)
        except Exception:
            return np.full(part.size, np.nan)

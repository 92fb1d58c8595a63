# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What filters and weighers will say of hosts that take further instances of a request.

They are asked about many hosts at once, ahead of time: asking about one costs as much.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.decision.asking import verdicts
from scheduler.decision.host_table import HostTable
from scheduler.decision.interfaces import Filter, Rows, Weigher
from scheduler.decision.outcome import Placement
from scheduler.decision.plugin_calls import columns_of, weights_of
from scheduler.decision.scaling import Weights
from scheduler.objects.request_spec import RequestSpec

# How many instances more are looked at for a host that takes one after the other, at most.
_MOST_AHEAD = 32


class Prospect(NamedTuple):
    """A host after some instance: its limits, and its raw weight from each weigher.

    refused_by is the first filter that refuses it for another one.
    """

    refused_by: Filter | None
    limits: dict[str, float]
    raw: tuple[float, ...]


class Forecast:
    """Prospects by row of a table, for instances that take all the same.

    All filters and weighers must declare what they depend on; see asking. The table stays as it is:
    one instance has been taken by a row already, and none by others.
    """

    def __init__(
        self,
        hosts: HostTable,
        spec: RequestSpec,
        filters: Sequence[Filter],
        weighers: Sequence[Weigher],
        first: Placement,
    ) -> None:
        self._hosts = hosts
        # For an instance that is nowhere yet.
        self._spec = spec.for_instance(None)
        self._filters = filters
        self._weighers = weighers
        self._changes = first.taken.changes if first.taken else {}
        plugins: list[Filter | Weigher] = [*filters, *weighers]
        self._columns = {name for each in plugins for name in columns_of(each, spec) or ()}
        self._ahead: dict[int, deque[Prospect]] = {}
        # After how many instances more than in the table each row has been looked at, at most.
        self._known = {first.chosen.row: -1}
        self._asked: dict[int, int] = {}

    def after(self, row: int, likely: Callable[[], Iterable[int]]) -> Prospect:
        """Return what a row is after one instance more.

        likely returns rows that may be next to take one: they are looked at in the same go.
        """
        ahead = self._ahead.get(row)
        if not ahead:
            others = [each for each in likely() if each != row and not self._ahead.get(each)]
            ahead = self._look(row, others)
        return ahead.popleft()

    def _look(self, row: int, others: list[int]) -> deque[Prospect]:
        count = min(2 ** self._asked.get(row, 0), _MOST_AHEAD)
        self._asked[row] = self._asked.get(row, 0) + 1
        rows = [row] * count + others
        times = []
        for each in rows:
            self._known[each] = self._known.get(each, 0) + 1
            times.append(self._known[each])
        found = self._prospects(np.array(rows, np.int64), np.array(times, np.int64))
        for other, prospect in zip(others, found[count:], strict=True):
            self._ahead[other] = deque([prospect])
        self._ahead[row] = deque(found[:count])
        return self._ahead[row]

    def _prospects(self, rows: Rows, times: Rows) -> list[Prospect]:
        part = self._hosts.part(rows, self._columns, self._changes, times)
        refused: list[Filter | None] = [None] * len(rows)
        limits: dict[str, list[float]] = {}
        for rule in self._filters:
            passes, columns = verdicts(rule, self._spec, part)
            limits |= {name: column.tolist() for name, column in columns.items()}
            for at in np.flatnonzero(~passes).tolist():
                refused[at] = refused[at] or rule
        raw = np.array([self._raw(each, part) for each in self._weighers])
        weights = raw.reshape(len(self._weighers), len(rows)).T.tolist()
        return [
            Prospect(refused[at], {name: each[at] for name, each in limits.items()}, tuple(weight))
            for at, weight in enumerate(weights)
        ]

    def _raw(self, weigher: Weigher, part: HostTable) -> Weights:
        """Return the raw weights of these rows: no numbers where the weigher fails.

        The next instance is decided about all hosts then, where a weigher that fails is left out.
        """
        try:
            return weights_of(weigher, part, self._spec)
        except Exception:
            return np.full(part.size, np.nan)

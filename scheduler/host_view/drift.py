# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where a table said something else than the database, as a complete reading shows."""

from collections.abc import Collection, Sequence

import numpy as np
from oslo_log import log

from scheduler.decision.columns import INTEGERS
from scheduler.decision.host_table import HostTable

LOG = log.getLogger(__name__)
# What tells one row, and one state of it, from others.
_IDENTITY = ("node_id", "generation")


class Survey:
    """The figures of a table as they are before everything is read anew.

    Nodes that are spared, by their ids, are known to be wrong and not looked at.
    """

    def __init__(self, hosts: HostTable, spared: Collection[int] = ()) -> None:
        self._hosts = hosts
        self._spared = spared
        self._size = hosts.size
        self._present = hosts.present.copy()
        self._figures = {name: getattr(hosts, name).copy() for name in INTEGERS}

    def differing(self) -> list[str]:
        """Return the hosts that have other figures now, and are of the same generation still."""
        size = self._size
        same = self._present & self._hosts.present[:size]
        differs = np.zeros(size, np.bool_)
        for name, before in self._figures.items():
            equal = before == getattr(self._hosts, name)[:size]
            if name in _IDENTITY:
                same &= equal
            else:
                differs |= ~equal
        rows = np.flatnonzero(same & differs).tolist()
        get = self._hosts.get
        return [get(row, "host") for row in rows if get(row, "node_id") not in self._spared]


def say_healed(missed: Sequence[str], differing: Sequence[str]) -> None:
    """Say which hosts had been wrong: changes were missed, or figures differ for no reason."""
    if missed or differing:
        LOG.warning(
            "The view of the hosts had missed changes of %s nodes and wrong figures of"
            " %s others: %s; healed",
            len(missed),
            len(differing),
            some_of([*missed, *differing]),
        )


def some_of(names: Collection[str], most: int = 5) -> str:
    """Return the first of some names, for a line of a log."""
    more = ", ..." if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more

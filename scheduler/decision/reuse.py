# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Work on all rows of a table, done again only for those that were written since the last time."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.decision.remembered import Entry, Results

# When more than one of so many rows was written, all are looked at again.
_FEW = 4


def recalled(
    hosts: HostTable,
    key: Hashable,
    columns: Sequence[str],
    work: Callable[[HostTable], Results],
) -> Results:
    """Return what work(hosts) gives for each row, from memory as far as that is up to date.

    key stands for the work, whose result for a row must depend on its elements of these columns
    alone. It is given the whole table, or a part of it with the rows that have been written since.
    Nobody may change what is returned.
    """
    positions, private = hosts.positions(columns), hosts.owns(columns)
    entry, own = hosts.remembered.get(key)
    if entry is not None and entry.positions == positions and entry.size == hosts.size:
        return entry.results
    said = len(hosts.warnings)
    renewed = _renewed(hosts, columns, work, entry if own or not private else _copy(entry))
    if renewed is None:
        renewed = Entry(positions, _frozen(work(hosts)))
    if len(hosts.warnings) > said:
        # Something has failed, and may not do so the next time.
        hosts.remembered.forget(key)
        return renewed.results
    renewed.positions = positions
    hosts.remembered.put(key, renewed, private)
    return renewed.results


def _copy(entry: Entry | None) -> Entry | None:
    return None if entry is None else entry.copy()


def _renewed(
    hosts: HostTable,
    columns: Sequence[str],
    work: Callable[[HostTable], Results],
    entry: Entry | None,
) -> Entry | None:
    """Return the entry with the rows that were written since, None where all are to be done."""
    if entry is None or entry.size != hosts.size:
        return None
    rows = hosts.written_since(columns, entry.positions)
    if rows is None or _FEW * len(rows) > hosts.size:
        return None
    newer = work(hosts.part(rows, columns))
    if _kinds(newer) != _kinds(entry.results):
        return None
    entry.renew(rows, newer)
    return entry


def _kinds(results: Results) -> dict[str, Any]:
    return {name: each.dtype for name, each in results.items()}


def _frozen(results: Results) -> Results:
    """Return results that nobody who is given them can change."""
    own = {name: np.array(each) for name, each in results.items()}
    for each in own.values():
        each.flags.writeable = False
    return own

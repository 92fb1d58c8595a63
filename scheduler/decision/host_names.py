# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of a table by the names of their hosts and nodes."""

from collections.abc import Collection, Iterable

Rows = tuple[int, ...]


class HostNames:
    """Finds rows by (host, nodename), and all rows of a host by its name alone."""

    __slots__ = ("_row_of", "_rows_of", "_spellings")

    def __init__(self) -> None:
        self._row_of: dict[tuple[str, str], int] = {}
        self._rows_of: dict[str, Rows] = {}
        # Names of hosts by what they are without regard to letter case.
        self._spellings: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self._row_of)

    @property
    def are_single(self) -> bool:
        """Whether no host has more than one node."""
        return len(self._rows_of) == len(self._row_of)

    def copy(self) -> "HostNames":
        """Return the same names; a change of either does not change the other."""
        other = HostNames()
        other._row_of = self._row_of.copy()
        other._rows_of = self._rows_of.copy()
        other._spellings = self._spellings.copy()
        return other

    def rows(self) -> Collection[int]:
        """Return the rows of all nodes."""
        return self._row_of.values()

    def row_of(self, host: str, nodename: str) -> int | None:
        """Return the row of a node, letter case respected."""
        return self._row_of.get((host, nodename))

    def rows_of(self, host: str, any_case: bool = False) -> Rows:
        """Return the rows of all nodes of a host."""
        if not any_case:
            return self._rows_of.get(host, ())
        names = self._spellings.get(host.casefold(), ())
        return tuple(row for name in names for row in self._rows_of[name])

    def rows_of_each(self, hosts: Iterable[str]) -> list[int]:
        """Return the rows of all nodes of these hosts, of one that is named twice two times."""
        known = self._rows_of
        return [row for host in hosts for row in known.get(host, ())]

    def add(self, row: int, host: str, nodename: str) -> None:
        """Take in a node."""
        self._row_of[host, nodename] = row
        if host not in self._rows_of:
            folded = host.casefold()
            self._spellings[folded] = (*self._spellings.get(folded, ()), host)
        self._rows_of[host] = (*self._rows_of.get(host, ()), row)

    def remove(self, host: str, nodename: str) -> None:
        """Forget a node."""
        row = self._row_of.pop((host, nodename))
        left = tuple(other for other in self._rows_of.pop(host) if other != row)
        if left:
            self._rows_of[host] = left
            return
        folded = host.casefold()
        names = tuple(name for name in self._spellings.pop(folded) if name != host)
        if names:
            self._spellings[folded] = names

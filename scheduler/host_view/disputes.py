# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts whose compute services list other instances than the database has for them.

Their rows are read again, once for each difference: some last, as that of a guest whose build has
failed, and every service sends its list every two minutes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from oslo_log import log

from scheduler.host_view.drift import some_of

LOG = log.getLogger(__name__)


@dataclass(slots=True)
class Dispute:
    """What a host and the database disagree about, as a hash of it, and what was done about it.

    lasting: of this difference, or an earlier one, the log has a line.
    """

    difference: int
    lasting: bool = False
    was_read: bool = False
    was_said: bool = False


class Disputes:
    """Not locked: their owner locks them together with what they are about."""

    def __init__(self) -> None:
        self._by_host: dict[str, Dispute] = {}
        self._open: dict[str, Dispute] = {}

    @property
    def open(self) -> Mapping[str, Dispute]:
        """Those about which the database is still to be asked, by host."""
        return self._open

    def hear(self, host: str, told: Collection[str], seen: Collection[str]) -> None:
        """Take in which instances only a host has told of, and which only the database has."""
        known = self._by_host.get(host)
        if not told and not seen:
            if known is not None:
                self.forget(host)
                if known.lasting:
                    LOG.info("Host %s and the database agree about its instances again", host)
            return
        difference = hash((frozenset(told), frozenset(seen)))
        if known is None or known.difference != difference:
            lasting = known is not None and known.lasting
            self._by_host[host] = self._open[host] = Dispute(difference, lasting)
        # What is being built or deleted differs for a moment: that is nothing to talk about.
        elif known.was_read and not known.was_said:
            known.was_said = known.lasting = True
            LOG.info(
                "Host %s and the database disagree about its instances: %s that only the host"
                " tells of (%s), %s that only the database has (%s)",
                host,
                len(told),
                some_of(told),
                len(seen),
                some_of(seen),
            )

    def close(self, read: Mapping[str, Dispute]) -> None:
        """Take it that the database was asked about these."""
        for host, dispute in read.items():
            dispute.was_read = True
            if self._open.get(host) is dispute:
                del self._open[host]

    def forget(self, host: str) -> None:
        """Forget what a host disputes."""
        self._by_host.pop(host, None)
        self._open.pop(host, None)

    def clear(self) -> None:
        """Forget everything."""
        self._by_host.clear()
        self._open.clear()

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The guests of a libvirt host, for the price of one call where nothing changed.

A bulk call lists them with their states; no stuck guest can hold it up, as long as it asks for
nothing more. What a guest has is in its description, which is read when there is a reason to, and
besides now and then, for not all changes make an event: vCPUs that are plugged in do not.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from types import ModuleType
from typing import Any
from uuid import UUID

from oslo_log import log

from compute_agent.host_memory import KIB_PER_MIB
from compute_agent.virt.driver import DriverHung, DriverUnavailable, Guest
from compute_agent.virt.libvirt import domain_numa
from compute_agent.virt.libvirt.connection import Connection, Lane
from compute_agent.virt.libvirt.descriptions import Reader, Undescribed
from compute_agent.virt.libvirt.domain_xml import Disk, Parsed
from compute_agent.virt.libvirt.events import Events, taken
from compute_agent.virt.libvirt.session import Link
from scheduler.objects.numa import NUMATopology

LOG = log.getLogger(__name__)
# What the bulk call names it.
STATE = "state.state"
# Guests whose description is read again in a second though nothing was heard of them: of 1000 each
# is within an hour, and up to 16 are once a minute.
REREAD = 1000 / 3600
# With so many stuck guests in one look something is wrong that is more than theirs.
MOST_STUCK = 3

# The numbers of a state and of the reason for it. libvirt's number of the guest would tell besides
# that it was started anew. An event does, too, and asking for it makes a look a tenth dearer.
State = Mapping[str, int]
# By uuid, as libvirt has it: its text costs more to make.
Listed = dict[bytes, tuple[State, Any]]


@dataclass(slots=True)
class _Known:
    state: State
    parsed: Parsed
    guest: Guest


class Guests:
    """What is known of the guests of a host, brought up to date by each look."""

    def __init__(
        self,
        libvirt: ModuleType,
        connection: Connection,
        events: Events,
        lane: Lane,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._libvirt = libvirt
        self._connection = connection
        self._events = events
        self._lane = lane
        self._clock = clock
        # By uuid, those first whose description was read the longest time ago.
        self._known: dict[bytes, _Known] = {}
        # Of which something was heard that has not been looked at yet.
        self._stale: set[bytes] = set()
        self._stuck: list[Reader] = []
        self._problems: dict[bytes, str] = {}
        self._opening: object = None
        self._reread_at = clock()
        self._host: NUMATopology | None = None

    def look(self, host: NUMATopology | None) -> list[Guest]:
        """Return all guests, running or not, placed on the cells of their host.

        Guests that have not changed are the same objects as before. Those that vanish meanwhile are
        left out, and so are those of which libvirt tells nothing at all and never did. Raises
        DriverUnavailable.
        """
        self._stale |= taken(self._events.guests)
        listed = self._connection.call(self._list)
        opening = self._connection.opening
        if opening is not self._opening or not self._events.hears_guests:
            self._stale.update(listed)
        self._stale &= listed.keys()
        for uuid in self._known.keys() - listed.keys():
            del self._known[uuid]
        for uuid in self._problems.keys() - listed.keys():
            del self._problems[uuid]
        wanted = self._wanted(listed)
        if wanted:
            self._read(wanted)
        self._opening = opening
        self._place(host)
        known = self._known
        return [known[uuid].guest for uuid in listed if uuid in known]

    @property
    def looked(self) -> bool:
        """Whether there has been a look."""
        return self._opening is not None

    @property
    def running_kib(self) -> list[int]:
        """What each guest that is not stopped may have of memory, as of the last look."""
        guests = (known.guest for known in self._known.values())
        return [guest.memory_mb * KIB_PER_MIB for guest in guests if guest.vm_state != "stopped"]

    @property
    def disks(self) -> list[Disk]:
        """The disks of all guests, as of the last look."""
        return [disk for known in self._known.values() for disk in known.parsed.disks]

    @property
    def owners(self) -> dict[str, bytes]:
        """The uuid of a guest of each disk, by path, as of the last look."""
        return {
            disk.path: uuid for uuid, known in self._known.items() for disk in known.parsed.disks
        }

    def _list(self, link: Link) -> Listed:
        try:
            found: Iterable[tuple[Any, State]] = link.getAllDomainStats(
                self._libvirt.VIR_DOMAIN_STATS_STATE, 0
            )
        except self._libvirt.libvirtError as error:
            if error.get_error_code() != self._libvirt.VIR_ERR_NO_SUPPORT:
                raise
            found = self._states_one_by_one(link)
        return {domain.UUID(): (state, domain) for domain, state in found}

    def _states_one_by_one(self, link: Link) -> Iterator[tuple[Any, State]]:
        for domain in link.listAllDomains(0):
            try:
                state, reason = domain.state()
            except self._libvirt.libvirtError as error:
                if error.get_error_code() == self._libvirt.VIR_ERR_NO_DOMAIN:
                    continue
                raise
            yield domain, {STATE: state, "state.reason": reason}

    def _wanted(self, listed: Listed) -> Listed:
        """Return the guests whose description is to be read."""
        self._stuck = [reader for reader in self._stuck if reader.at]
        stuck = {reader.at for reader in self._stuck}
        known, stale = self._known, self._stale
        wanted = {
            uuid: each
            for uuid, each in listed.items()
            if uuid not in known or known[uuid].state != each[0] or uuid in stale
        }
        share = int((self._clock() - self._reread_at) * REREAD)
        if share:
            self._reread_at = self._clock()
            wanted |= {uuid: listed[uuid] for uuid in islice(known, share)}
        return {uuid: each for uuid, each in wanted.items() if uuid not in stuck}

    def _read(self, wanted: Listed) -> None:
        """Read descriptions; a guest that holds up its own keeps what was known of it."""
        left = deque(
            (uuid, state.get(STATE, 0), domain) for uuid, (state, domain) in wanted.items()
        )
        readers = []
        while left:
            readers.append(Reader(self._libvirt, left))
            try:
                self._lane.run(readers[-1].run)
            except DriverHung:
                self._leave(readers[-1])
                if len(readers) > MOST_STUCK:
                    raise
                # If it is all of libvirt that hangs, this says so.
                self._connection.call(lambda link: link.getHostname())
            except self._libvirt.libvirtError as error:
                raise DriverUnavailable(
                    f"libvirt was lost while it told of guests: {error}"
                ) from error
        for reader in readers:
            for uuid, parsed in reader.found.items():
                self._keep(uuid, wanted[uuid][0], parsed)

    def _leave(self, reader: Reader) -> None:
        reader.left = True
        at = reader.at
        if at:
            self._stuck.append(reader)
            self._stale.add(at)
            self._say(at, "libvirt does not come to an end with its description")
        self._lane.leave()

    def _keep(self, uuid: bytes, state: State, found: Parsed | Undescribed | None) -> None:
        """Take over what a reader found."""
        problem = found.problem if isinstance(found, Undescribed) else ""
        if problem:
            self._stale.add(uuid)
        else:
            self._stale.discard(uuid)
        # The newest come last.
        known = self._known.pop(uuid, None)
        parsed = found.outline if isinstance(found, Undescribed) and known is None else found
        if isinstance(parsed, Parsed):
            if known is None or known.parsed != parsed:
                known = _Known(state, parsed, _placed(parsed.guest, self._host))
            known.state = state
        if known is not None and found is not None:
            self._known[uuid] = known
        self._say(uuid, problem)

    def _say(self, uuid: bytes, problem: str) -> None:
        """Warn of a guest without a usable description, once for each reason."""
        if problem and problem != self._problems.get(uuid):
            counts = "with what is known of it" if uuid in self._known else "for nothing"
            LOG.warning("Guest %s counts %s: %s", UUID(bytes=uuid), counts, problem)
        if problem:
            self._problems[uuid] = problem
        else:
            self._problems.pop(uuid, None)

    def _place(self, host: NUMATopology | None) -> None:
        """Say of all guests where they are, if the host's cells are others than before."""
        if host is self._host:
            return
        self._host = host
        for known in self._known.values():
            guest = _placed(known.parsed.guest, host)
            if guest != known.guest:
                known.guest = guest


def _placed(guest: Guest, host: NUMATopology | None) -> Guest:
    if guest.numa is None:
        return guest
    return replace(guest, numa=domain_numa.placed(guest.numa, host))

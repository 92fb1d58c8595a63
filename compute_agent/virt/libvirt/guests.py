# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The guests of a libvirt host, for the price of one call where nothing changed.

A bulk call lists guests with their states, which no stuck guest can hold up. The XML description of
a guest is read when it may have changed, and from time to time, since not all changes make an
event: vCPUs that are plugged in do not.
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
from compute_agent.virt.driver import DriverAnswerUnusable, DriverHung, DriverUnavailable, Guest
from compute_agent.virt.libvirt import domain_xml
from compute_agent.virt.libvirt.connection import Connection, SerialWorker
from compute_agent.virt.libvirt.domain_xml import DOMAIN_0, Disk, Parsed
from compute_agent.virt.libvirt.events import Events, drain
from compute_agent.virt.libvirt.guest_numa import placed
from compute_agent.virt.libvirt.host_cells import HostCells
from compute_agent.virt.libvirt.session import Link, skipping_gone
from conf.daemon.state_logger import one_line

LOG = log.getLogger(__name__)
# What the bulk call names it.
STATE = "state.state"
# Descriptions that are read again per second without an event: of 1000 guests each within an hour,
# and up to 16 once a minute.
REREAD = 1000 / 3600
# With more stuck guests in one audit it is libvirt that hangs.
MAX_STUCK = 3

# The numbers of a state and of the reason for it. libvirt's number of the guest would also show a
# restart, but so does an event, and reading it makes the call a tenth slower.
State = Mapping[str, int]
# By uuid, as libvirt has it: its text costs more to make.
Listed = dict[bytes, tuple[State, Any]]
# A guest, None if there is none any more or nothing is known of it; and why its description could
# not be used. Without one the guest is an outline: it must count, if only its CPUs and memory.
Description = tuple[Parsed | None, str]


class _Reader:
    """Reads descriptions one after the other, in a native thread; one of them may hang."""

    def __init__(self, libvirt: ModuleType, left: deque[tuple[bytes, int, Any]]) -> None:
        self.found: dict[bytes, Description] = {}
        # The guest whose description is being read.
        self.at: bytes | None = None
        # Set when no caller waits for it any more.
        self.abandoned = False
        self._libvirt = libvirt
        self._left = left

    def run(self) -> None:
        try:
            while self._left and not self.abandoned:
                self.at, state, domain = self._left.popleft()
                found = self._describe(state, domain)
                if not self.abandoned:
                    self.found[self.at] = found
        finally:
            self.at = None

    def _describe(self, state: int, domain: Any) -> Description:
        if domain.ID() == DOMAIN_0:
            return None, ""
        try:
            xml = domain.XMLDesc(0)
        except self._libvirt.libvirtError as error:
            code = error.get_error_code()
            if code == self._libvirt.VIR_ERR_NO_DOMAIN:
                return None, ""
            # A timeout of libvirtd means that the guest is stuck, not the connection.
            if code != self._libvirt.VIR_ERR_OPERATION_TIMEOUT and domain.connect().isAlive() != 1:
                raise
            return self._outline(domain, state), one_line(error)
        try:
            return domain_xml.parse(xml, state), ""
        except DriverAnswerUnusable as error:
            return self._outline(domain, state), str(error)

    def _outline(self, domain: Any, state: int) -> Parsed | None:
        """Return what libvirt reports of a guest without a description."""
        try:
            _, memory_kib, _, vcpus, _ = domain.info()
        except self._libvirt.libvirtError:
            return None
        guest = Guest(
            uuid=domain.UUIDString(),
            name=domain.name(),
            vcpus=vcpus,
            memory_mb=-(-memory_kib // KIB_PER_MIB),
            vm_state=domain_xml.vm_state(state),
        )
        return Parsed(guest, ())


@dataclass(slots=True)
class _Known:
    state: State
    parsed: Parsed
    guest: Guest


class Guests:
    """Cache the guests of a host; each look() brings it up to date."""

    def __init__(
        self,
        libvirt: ModuleType,
        connection: Connection,
        events: Events,
        worker: SerialWorker,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._libvirt = libvirt
        self._connection = connection
        self._events = events
        self._worker = worker
        self._clock = clock
        # By uuid, those first whose description was read the longest time ago.
        self._known: dict[bytes, _Known] = {}
        # Guests with events since their descriptions were read.
        self._stale: set[bytes] = set()
        self._stuck: list[_Reader] = []
        self._problems: dict[bytes, str] = {}
        self._opening: object = None
        self._reread_at = clock()
        self._host: HostCells | None = None

    def look(self, host: HostCells | None) -> list[Guest]:
        """Return all guests, running or not, placed on the cells of their host.

        Guests that have not changed are the same objects as before. Those that vanish meanwhile are
        left out, and so are those of which libvirt has never reported anything. Raises
        DriverUnavailable.
        """
        self._stale |= drain(self._events.guests)
        listed = self._connection.call(self._list)
        opening = self._connection.opening
        if opening is not self._opening or not self._events.hears_guests:
            self._stale.update(listed)
        self._stale &= listed.keys()
        for uuid in self._known.keys() - listed.keys():
            del self._known[uuid]
        for uuid in self._problems.keys() - listed.keys():
            del self._problems[uuid]
        due = self._to_read(listed)
        if due:
            self._read(due)
        self._opening = opening
        self._place(host)
        known = self._known
        return [known[uuid].guest for uuid in listed if uuid in known]

    @property
    def looked(self) -> bool:
        """Return whether look() has succeeded."""
        return self._opening is not None

    @property
    def running_mb(self) -> int:
        """Return the memory of the guests that are not stopped, in MiB, as of the last look()."""
        guests = (known.guest for known in self._known.values())
        return sum(guest.memory_mb for guest in guests if guest.vm_state != "stopped")

    @property
    def disks(self) -> list[Disk]:
        """Return the disks of all guests, as of the last look()."""
        return [disk for known in self._known.values() for disk in known.parsed.disks]

    @property
    def owners(self) -> dict[str, bytes]:
        """Return the uuid of a guest of each disk, by path, as of the last look()."""
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
            with skipping_gone(self._libvirt):
                state, reason = domain.state()
                yield domain, {STATE: state, "state.reason": reason}

    def _to_read(self, listed: Listed) -> Listed:
        """Return the guests whose description is to be read."""
        self._stuck = [reader for reader in self._stuck if reader.at]
        stuck = {reader.at for reader in self._stuck}
        known, stale = self._known, self._stale
        due = {
            uuid: each
            for uuid, each in listed.items()
            if uuid not in known or known[uuid].state != each[0] or uuid in stale
        }
        share = int((self._clock() - self._reread_at) * REREAD)
        if share:
            self._reread_at = self._clock()
            due |= {uuid: listed[uuid] for uuid in islice(known, share)}
        return {uuid: each for uuid, each in due.items() if uuid not in stuck}

    def _read(self, due: Listed) -> None:
        """Read descriptions; a guest that holds up its own keeps what was known of it."""
        left = deque((uuid, state.get(STATE, 0), domain) for uuid, (state, domain) in due.items())
        readers = []
        while left:
            readers.append(_Reader(self._libvirt, left))
            try:
                self._worker.run(readers[-1].run)
            except DriverHung:
                self._abandon(readers[-1])
                if len(readers) > MAX_STUCK:
                    raise
                # Raises if all of libvirt hangs.
                self._connection.call(lambda link: link.getHostname())
            except self._libvirt.libvirtError as error:
                raise DriverUnavailable(
                    f"the connection to libvirt was lost while guests were read: {error}"
                ) from error
        for reader in readers:
            for uuid, description in reader.found.items():
                self._update(uuid, due[uuid][0], *description)

    def _abandon(self, reader: _Reader) -> None:
        reader.abandoned = True
        at = reader.at
        if at:
            self._stuck.append(reader)
            self._stale.add(at)
            self._log_problem(at, "libvirt did not return its description in time")
        self._worker.abandon()

    def _update(self, uuid: bytes, state: State, parsed: Parsed | None, problem: str) -> None:
        """Store what a reader found of a guest."""
        if problem:
            self._stale.add(uuid)
        else:
            self._stale.discard(uuid)
        # The newest come last.
        known = self._known.pop(uuid, None)
        # An outline says less than what was known before.
        if parsed is not None and (known is None or not problem):
            if known is None or known.parsed != parsed:
                known = _Known(state, parsed, _placed(parsed, self._host))
            known.state = state
        if known is not None and (parsed is not None or problem):
            self._known[uuid] = known
        self._log_problem(uuid, problem)

    def _log_problem(self, uuid: bytes, problem: str) -> None:
        """Warn of a guest without a usable description, once for each reason."""
        if problem and problem != self._problems.get(uuid):
            counts = "counts as it was last read" if uuid in self._known else "is not counted"
            LOG.warning("Cannot read guest %s, it %s: %s", UUID(bytes=uuid), counts, problem)
        if problem:
            self._problems[uuid] = problem
        else:
            self._problems.pop(uuid, None)

    def _place(self, host: HostCells | None) -> None:
        """Place all guests again if the host's cells have changed."""
        if host is self._host:
            return
        self._host = host
        for known in self._known.values():
            guest = _placed(known.parsed, host)
            if guest != known.guest:
                known.guest = guest


def _placed(parsed: Parsed, host: HostCells | None) -> Guest:
    if not parsed.cells:
        return parsed.guest
    return replace(parsed.guest, numa=placed(parsed.cells, host))

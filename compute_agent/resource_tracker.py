# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One audit: look at the nodes, recount what is taken, store what changed, tell of it.

An audit that finds what the last one left asks the driver, reads one mark for each node, and
writes nothing.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from compute_agent import identity, records, storing, usage
from compute_agent.account import Findings, Settings
from compute_agent.identity import IdentityError
from compute_agent.pci_devices import DeviceSpecs
from compute_agent.records import Records
from compute_agent.storing import Batch, Stored
from compute_agent.virt.driver import Driver, DriverError, NodeName, Size
from inventory import claims, compute_nodes
from inventory.claims import ClaimLost
from inventory.compute_nodes import RATIOS, Mark
from inventory.engine import Database

LOG = log.getLogger(__name__)
# So many nodes share a transaction. A real hypervisor is one node; only the fake has more.
BATCH = 500
Metrics = Callable[[NodeName], list[dict[str, Any]]]
Refusals = dict[NodeName, IdentityError]


@dataclass(slots=True)
class _Audit:
    """One run: the options that it goes by, and what it has come across so far."""

    service_ids: Mapping[str, int]
    settings: Settings
    refresh_after: timedelta
    began: float = field(default_factory=time.monotonic)
    problems: dict[NodeName, DriverError | IdentityError] = field(default_factory=dict)
    news: int = 0
    # When the hypervisor was asked of the nodes that are at hand.
    looked: float = field(default_factory=time.monotonic)
    # The marks of the hosts that were looked up.
    marks: dict[NodeName, Mark] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)


class ResourceTracker:
    """Keeps the rows of an agent's nodes and of their guests true."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        driver: Driver,
        metrics: Metrics = lambda _: [],
        tell: Callable[[Stored], None] = lambda _: None,
    ) -> None:
        self._conf = conf
        self._database = database
        self._driver = driver
        self._metrics = metrics
        self._tell = tell
        self._devices = DeviceSpecs.parse(conf.pci.device_spec)
        self._uuids: dict[NodeName, str] = {}
        # What the driver called its nodes the last time, and what they are called here.
        self._reported: list[NodeName] = []
        self._names: list[NodeName] = []
        # What the last audit of a node found, and in which generation it left the row.
        self._kept: dict[NodeName, tuple[Findings, int]] = {}
        # Why a node keeps its last figures.
        self._unseen: dict[NodeName, str] = {}

    def audit(
        self, service_ids: Mapping[str, int], only: Collection[NodeName] | None = None
    ) -> None:
        """Bring the database up to what the driver sees; the keys of service_ids are hosts.

        only restricts it to some nodes. The driver is asked outside of any transaction; each
        node's row and its guests are written in one. A node that cannot be looked at, or is not
        what it was, keeps its row and does not keep the others from theirs. Raises DriverError or
        IdentityError when that is all there are, or nobody knows which there are, and
        DatabaseUnavailable; rows that are not written yet stay as they were then.
        """
        this = _Audit(service_ids, self._settings(), self._refresh_after)
        names = self._present()
        wanted = [name for name in names if only is None or name in only]
        for start in range(0, len(wanted), BATCH):
            self._account(this, self._look_at(this, wanted[start : start + BATCH]))
            # Lets green threads run: SQLite never waits for anything and so never makes way.
            time.sleep(0)
        # One that was closed meanwhile answered nothing more; nobody needs to be told of that.
        if this.problems and (len(this.problems) == len(names) or self._driver.changes.closed):
            raise next(iter(this.problems.values()))
        self._say_unseen(wanted, this.problems)
        # A node that is not what it was may be one that seems to be gone.
        if not any(isinstance(each, IdentityError) for each in this.problems.values()):
            self._delete_missing(this, only)
        seconds = time.monotonic() - this.began
        LOG.debug("Audited %d nodes in %.3f s, %d with news", len(wanted), seconds, this.news)

    def _present(self) -> list[NodeName]:
        reported = list(self._driver.nodes())
        if reported != self._reported:
            self._names = identity.distinct(reported)
            self._reported = reported
        return self._names

    def _look_at(self, this: _Audit, names: Iterable[NodeName]) -> list[Findings]:
        this.looked = time.monotonic()
        found = []
        for name in names:
            try:
                found.append(self._look_at_one(this, name))
            except (DriverError, IdentityError) as error:
                this.problems[name] = error
        return found

    def _look_at_one(self, this: _Audit, name: NodeName) -> Findings:
        # Before the facts: the disks of a guest that is new count among these.
        guests = usage.each_once(self._driver.guests(name))
        facts = self._driver.facts(name)
        if facts.memory_used_mb is not None:
            LOG.debug("%s uses %s of its %s MiB", name.node, facts.memory_used_mb, facts.memory_mb)
            # For the log alone: what always moves would be news at every audit.
            facts = replace(facts, memory_used_mb=None)
        return Findings(
            name=name,
            uuid=facts.uuid or self._kept_uuid(name),
            service_id=this.service_ids[name.host],
            settings=this.settings,
            facts=facts,
            # Whatever their order, they are the same ones.
            guests=guests,
            metrics=self._metrics(name),
        )

    def _account(self, this: _Audit, found: Sequence[Findings]) -> None:
        """Store what was found of these nodes, as far as it is news."""
        if not found:
            return

        def read(connection: sa.Connection) -> tuple[Records, Refusals]:
            recorded = records.read(connection, {each.name: each.guests for each in found})
            uuids = {each.name: each.uuid for each in found}
            return recorded, identity.refusals(connection, uuids, recorded.marks)

        recorded, refused = self._database.read(read)
        this.problems |= refused
        this.marks |= recorded.marks
        this.hosts |= {each.name.host for each in found}
        news = []
        for each in found:
            managed, moves = recorded.managed.get(each.name), recorded.moves.get(each.name)
            complete = each.beside(managed or [], moves or []) if managed or moves else each
            is_news = each.name in recorded.overdue or self._is_news(this, complete)
            if each.name not in refused and is_news:
                news.append(complete)
        if news:
            this.news += len(news)
            self._store(this, news)

    def _store(self, this: _Audit, news: Sequence[Findings]) -> None:
        batch = Batch(news, this.marks, this.looked, this.refresh_after, self._driver.overhead)
        stored = self._database.write(lambda connection: storing.store(connection, batch))
        for each in news:
            if each.name in stored.generations:
                self._kept[each.name] = (each, stored.generations[each.name])
        self._tell(stored)
        _say_settled(stored)
        self._release_elsewhere(stored)

    def _release_elsewhere(self, stored: Stored) -> None:
        """Give back what was claimed elsewhere for the instances that have come to these nodes.

        In a transaction of its own, since all lock nodes in one order. The audits of the other
        nodes do it where this one does not come to it.
        """
        uuids = [uuid for each in stored.settled.values() for uuid in each.confirmed]
        if uuids:
            with suppress(ClaimLost):
                self._database.write(lambda each: claims.release_elsewhere(each, uuids))

    def _is_news(self, this: _Audit, found: Findings) -> bool:
        mark = this.marks.get(found.name)
        if mark is None or mark.age >= this.refresh_after:
            return True
        return self._kept.get(found.name) != (found, mark.generation)

    def _delete_missing(self, this: _Audit, only: Collection[NodeName] | None) -> None:
        """Delete the rows of nodes, some or all, that the driver has no more."""
        there = set(self._names)
        wanted = None if only is None else set(only) - there
        hosts = set(this.service_ids)
        if wanted is not None:
            hosts &= {name.host for name in wanted}
        unknown = hosts - this.hosts
        if unknown:
            marks = self._database.read(lambda each: compute_nodes.marks(each, unknown))
            this.marks |= {NodeName(*place): mark for place, mark in marks.items()}
        missing = (name for name in this.marks if name not in there)
        gone = [
            name
            for name in missing
            if (wanted is None or name in wanted) and self._driver.is_gone(name)
        ]
        for start in range(0, len(gone), BATCH):
            self._delete(gone[start : start + BATCH])

    def _delete(self, gone: Sequence[NodeName]) -> None:
        LOG.info("Deleting %s: no longer there", _some(gone))
        self._tell(self._database.write(lambda connection: storing.delete(connection, gone)))
        for name in gone:
            for memory in (self._kept, self._uuids, self._unseen):
                memory.pop(name, None)

    def _say_unseen(
        self, names: Iterable[NodeName], problems: Mapping[NodeName, Exception]
    ) -> None:
        """Say which nodes keep their last figures from now on, once for each reason."""
        changed: dict[str, list[NodeName]] = {}
        for name in names:
            reason = str(problems[name]) if name in problems else ""
            if reason != self._unseen.pop(name, ""):
                changed.setdefault(reason, []).append(name)
            if reason:
                self._unseen[name] = reason
        for reason, some in changed.items():
            if reason:
                LOG.warning("The last figures of %s are kept: %s", _some(some), reason)
            else:
                LOG.info("Looking at %s again", _some(some))

    def _kept_uuid(self, name: NodeName) -> str:
        if name not in self._uuids:
            self._uuids[name] = identity.confirm(self._conf, self._database, name)
        return self._uuids[name]

    @property
    def _refresh_after(self) -> timedelta:
        return timedelta(seconds=self._conf.compute_agent.refresh_interval)

    def _settings(self) -> Settings:
        """Return the options as they are now; some may change while the agent runs."""
        conf = self._conf
        # A ratio that is unset, or 0 as Newton has it, leaves the row's alone.
        ratios = {f"initial_{ratio}": conf[f"initial_{ratio}"] for ratio in RATIOS}
        ratios |= {ratio: conf[ratio] or None for ratio in RATIOS}
        return Settings(
            host_ip=str(conf.my_ip),
            reserved=Size(
                vcpus=conf.reserved_host_cpus,
                memory_mb=conf.reserved_host_memory_mb,
                disk_mb=conf.reserved_host_disk_mb,
            ),
            ratios=ratios,
            devices=self._devices,
        )


def _say_settled(stored: Stored) -> None:
    """Say which claims are over; of those that nobody came for an operator may want to know."""
    for name, each in stored.settled.items():
        node = name.node
        if each.expired:
            some = ", ".join(each.expired[:3]) + (", ..." if each.expired[3:] else "")
            LOG.info(
                "Claims that nobody came for on node %s: %d, %s", node, len(each.expired), some
            )
        if each.confirmed:
            LOG.debug("Claims on node %s that are confirmed: %s", node, ", ".join(each.confirmed))
        if each.ended:
            LOG.debug("Claims on node %s that have ended: %s", node, ", ".join(each.ended))


def _some(names: Sequence[NodeName]) -> str:
    """Return a few words for nodes, of which there may be thousands."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"node {names[0].node}{more}"

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One audit: poll the nodes, recount their usage, store what changed, publish it.

An audit that finds what the last one left polls the driver, reads one mark for each node, and
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

from compute_agent import device_spec, identity
from compute_agent.audit import database_state, transaction, usage
from compute_agent.audit.database_state import DatabaseState
from compute_agent.audit.row_builder import PollResult, Settings
from compute_agent.audit.transaction import AuditResult, Batch
from compute_agent.audit.unclaimed import Unclaimed
from compute_agent.identity import IdentityError
from compute_agent.virt.driver import Driver, DriverError, NodeFacts, NodeName, Size
from inventory import compute_nodes
from inventory.claims import claims
from inventory.claims.types import ClaimLost
from inventory.compute_nodes import RATIOS, RowVersion
from inventory.database_errors import DataRefused
from inventory.engine import Database
from inventory.errors import counted

LOG = log.getLogger(__name__)
# Nodes that share a transaction. A real hypervisor is one node; only the fake has more.
BATCH_SIZE = 500
# How often a node is polled while there are guests on it that may have ended since the last poll.
POLLS = 3


@dataclass(slots=True)
class _Audit:
    """One run: its options, and what it has found so far."""

    service_ids: Mapping[str, int]
    settings: Settings
    refresh_after: timedelta
    began: float = field(default_factory=time.monotonic)
    problems: dict[NodeName, Exception] = field(default_factory=dict)
    changed: int = 0
    # When the hypervisor was polled about the present batch of nodes.
    polled_at: float = field(default_factory=time.monotonic)
    # Marks of all nodes of these hosts.
    marks: dict[NodeName, RowVersion] = field(default_factory=dict)


class ResourceTracker:
    """Keeps the rows of an agent's nodes and of their instances true."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        driver: Driver,
        metrics: Callable[[NodeName], list[dict[str, Any]]] = lambda _: [],
        publish: Callable[[AuditResult], None] = lambda _: None,
    ) -> None:
        self._conf = conf
        self._database = database
        self._driver = driver
        self._metrics = metrics
        self._publish = publish
        self._device_specs = device_spec.parse(conf.pci.device_spec)
        self._uuids: dict[NodeName, str] = {}
        # The nodes as the driver named them last, and their names here.
        self._reported: list[NodeName] = []
        self._names: list[NodeName] = []
        # What the last audit of a node found, and the generation in which it left the row.
        self._last: dict[NodeName, tuple[PollResult, int]] = {}
        # Why a node keeps its last reported resources.
        self._unreadable: dict[NodeName, str] = {}

    def audit(
        self, service_ids: Mapping[str, int], only: Collection[NodeName] | None = None
    ) -> None:
        """Update the database from what the driver reports; the keys of service_ids are hosts.

        only restricts it to some nodes. The driver is polled outside of any transaction; a node's
        row and its instances are written in one. A node that cannot be polled or stored, or has
        changed its identity, keeps its row; the others are written. Raises DriverError,
        IdentityError or DataRefused when no node can be audited, and DatabaseUnavailable; rows not
        yet written stay as they are.
        """
        refresh_after = timedelta(seconds=self._conf.compute_agent.refresh_interval)
        this = _Audit(service_ids, self._settings(), refresh_after)
        names = self._present()
        wanted = [name for name in names if only is None or name in only]
        for start in range(0, len(wanted), BATCH_SIZE):
            self._audit_batch(this, wanted[start : start + BATCH_SIZE])
            # Let green threads run: SQLite never waits and so never yields.
            time.sleep(0)
        # A driver that was closed meanwhile answers nothing more, which is no news.
        if this.problems and (len(this.problems) == len(names) or self._driver.changes.closed):
            raise next(iter(this.problems.values()))
        self._log_unreadable(wanted, this.problems)
        # A node with another identity may be one that seems to be gone.
        if not any(isinstance(each, IdentityError) for each in this.problems.values()):
            self._delete_missing(this, only)
        seconds = time.monotonic() - this.began
        nodes = counted(len(wanted), "node")
        LOG.debug("Audited %s in %.3f s, %d changed", nodes, seconds, this.changed)

    def _present(self) -> list[NodeName]:
        reported = list(self._driver.nodes())
        if reported != self._reported:
            self._names = identity.distinct(reported)
            self._reported = reported
        return self._names

    def _audit_batch(self, this: _Audit, names: Iterable[NodeName]) -> None:
        """Poll nodes and store what was found; guests without claims have to be seen twice."""
        unclaimed: Unclaimed = {}
        for _ in range(POLLS):
            found = self._poll(this, names)
            unclaimed = names = self._store_changed(this, found, unclaimed)
            if not unclaimed:
                return

    def _poll(self, this: _Audit, names: Iterable[NodeName]) -> list[PollResult]:
        this.polled_at = self._driver.polled_at()
        found = []
        for name in names:
            try:
                found.append(self._poll_node(this, name))
            except (DriverError, IdentityError) as error:
                this.problems[name] = error
        return found

    def _poll_node(self, this: _Audit, name: NodeName) -> PollResult:
        # Before the facts: the disks of a guest that is new count among these.
        guests = usage.each_once(self._driver.guests(name))
        facts = self._driver.facts(name)
        if facts.memory_used_mb is not None:
            LOG.debug("%s uses %s of its %s MiB", name.node, facts.memory_used_mb, facts.memory_mb)
            # For the log alone: a figure that always moves would change the row at every audit.
            facts = replace(facts, memory_used_mb=None)
        own = facts.settings
        return PollResult(
            name=name,
            uuid=facts.uuid or self._confirmed_uuid(name),
            service_id=this.service_ids[name.host],
            settings=_settings_of(facts, this.settings),
            facts=facts,
            guests=guests,
            metrics=[*map(dict, own.metrics)] if own and own.metrics else self._metrics(name),
            moves=list(self._driver.moves(name)),
        )

    def _store_changed(
        self, this: _Audit, found: Sequence[PollResult], unclaimed: Unclaimed
    ) -> Unclaimed:
        """Store what was found of these nodes where it differs from the last audit.

        unclaimed are guests that were left out before the last poll; return those that now are.
        """
        if not found:
            return {}

        def read(connection: sa.Connection) -> tuple[DatabaseState, dict[NodeName, IdentityError]]:
            state = database_state.read(connection, {each.name: each.guests for each in found})
            uuids = {each.name: each.uuid for each in found}
            return state, identity.refusals(connection, uuids, state.marks)

        state, refused = self._database.read(read)
        this.problems |= refused
        this.marks |= state.marks
        changed = []
        for each in found:
            managed = state.managed.get(each.name, [])
            moves = each.moves + state.moves.get(each.name, [])
            complete = replace(each, managed=managed, moves=moves)
            differs = each.name in state.overdue or self._differs(this, complete)
            if each.name not in refused and differs:
                changed.append(complete)
        this.changed += len(changed)
        return self._store(this, changed, unclaimed) if changed else {}

    def _store(
        self, this: _Audit, changed: Sequence[PollResult], unclaimed: Unclaimed
    ) -> Unclaimed:
        # What a driver has read beforehand cannot be polled anew.
        is_polled_now = this.polled_at >= this.began
        batch = Batch(
            *(changed, this.marks, this.polled_at, this.refresh_after, self._driver.overhead),
            unclaimed=unclaimed if is_polled_now else None,
        )
        try:
            stored = self._database.write(lambda connection: transaction.store(connection, batch))
        except DataRefused as error:
            # Its node alone keeps its row.
            if len(changed) > 1:
                found = [self._store(this, [each], unclaimed) for each in changed]
                return {name: uuids for some in found for name, uuids in some.items()}
            this.problems[changed[0].name] = error
            return {}
        for each in changed:
            if each.name in stored.generations:
                self._last[each.name] = (each, stored.generations[each.name])
        if stored.nodes:
            self._publish(stored)
        _log_claims(stored)
        # What was claimed on other nodes for instances that have come to these is released in a
        # transaction of its own, since all transactions lock nodes in one order. If this one is
        # lost, the audits of the other nodes do it.
        uuids = [uuid for each in stored.reconciled.values() for uuid in each.confirmed]
        if uuids:
            with suppress(ClaimLost):
                self._database.write(lambda each: claims.release_elsewhere(each, uuids))
        return stored.unclaimed

    def _differs(self, this: _Audit, found: PollResult) -> bool:
        mark = this.marks.get(found.name)
        if mark is None or mark.age >= this.refresh_after:
            return True
        return self._last.get(found.name) != (found, mark.generation)

    def _delete_missing(self, this: _Audit, only: Collection[NodeName] | None) -> None:
        """Delete the rows of nodes that the driver no longer reports."""
        there = set(self._names)
        hosts = set(this.service_ids)
        if only is not None:
            hosts &= {name.host for name in only if name not in there}
        unknown = hosts - {name.host for name in this.marks}
        if unknown:
            marks = self._database.read(lambda each: compute_nodes.row_versions(each, unknown))
            this.marks |= {NodeName(*place): mark for place, mark in marks.items()}
        missing = (name for name in this.marks if name not in there)
        wanted = (name for name in missing if only is None or name in only)
        gone = [name for name in wanted if self._driver.is_gone(name)]
        for start in range(0, len(gone), BATCH_SIZE):
            self._delete(gone[start : start + BATCH_SIZE])

    def _delete(self, gone: Sequence[NodeName]) -> None:
        LOG.info("Deleting %s: the hypervisor no longer reports it", _some(gone))
        self._publish(self._database.write(lambda connection: transaction.delete(connection, gone)))
        for name in gone:
            for memory in (self._last, self._uuids, self._unreadable):
                memory.pop(name, None)

    def _log_unreadable(
        self, names: Iterable[NodeName], problems: Mapping[NodeName, Exception]
    ) -> None:
        """Log which nodes keep their last reported resources, once for each reason."""
        changed: dict[str, list[NodeName]] = {}
        for name in names:
            reason = str(problems[name]) if name in problems else ""
            if reason != self._unreadable.pop(name, ""):
                changed.setdefault(reason, []).append(name)
            if reason:
                self._unreadable[name] = reason
        for reason, some in changed.items():
            if reason:
                LOG.warning(
                    "Cannot read %s, keeping its last reported resources: %s", _some(some), reason
                )
            else:
                LOG.info("Resumed reporting %s", _some(some))

    def _confirmed_uuid(self, name: NodeName) -> str:
        if name not in self._uuids:
            self._uuids[name] = identity.confirm(self._conf, self._database, name)
        return self._uuids[name]

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
            device_specs=self._device_specs,
        )


def _settings_of(facts: NodeFacts, options: Settings) -> Settings:
    own = facts.settings
    if own is None:
        return options
    # A row without a ratio of its own has that of the options.
    ratios = {**options.ratios, **own.ratios}
    return replace(options, host_ip=own.host_ip, reserved=own.reserved, ratios=ratios)


def _log_claims(stored: AuditResult) -> None:
    """Log which claims are over: those that expired unused at INFO, since operators may ask."""
    for name, each in stored.reconciled.items():
        node = name.node
        if each.expired:
            some = ", ".join(each.expired[:3]) + (", ..." if each.expired[3:] else "")
            LOG.info("Claims expired unused on node %s: %d, %s", node, len(each.expired), some)
        if each.confirmed:
            LOG.debug("Claims confirmed on node %s: %s", node, ", ".join(each.confirmed))
        if each.ended:
            LOG.debug("Claims ended on node %s: %s", node, ", ".join(each.ended))


def _some(names: Sequence[NodeName]) -> str:
    return f"node {identity.shortened([name.node for name in names])}"

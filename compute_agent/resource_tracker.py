# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One audit: look at the nodes, recount what is taken, store what changed, tell of it.

An audit that finds what the last one left asks the driver, reads one mark for each node, and
writes nothing.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from oslo_config import cfg
from oslo_log import log

from compute_agent import identity, records, storing
from compute_agent.account import Findings, Settings, account
from compute_agent.pci_devices import DeviceSpecs
from compute_agent.storing import Stored
from compute_agent.virt.driver import Driver, DriverError, NodeName, Size
from inventory import compute_nodes
from inventory.compute_nodes import RATIOS, Mark
from inventory.engine import Database

LOG = log.getLogger(__name__)
# So many nodes share a transaction. A real hypervisor is one node; only the fake has more.
BATCH = 500
Metrics = Callable[[NodeName], list[dict[str, Any]]]


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
        self._devices = DeviceSpecs()
        self._uuids: dict[NodeName, str] = {}
        # What the last audit of a node found, and in which generation it left the row.
        self._kept: dict[NodeName, tuple[Findings, int]] = {}
        # Why a node could not be looked at the last time.
        self._unseen: dict[NodeName, str] = {}

    def audit(
        self, service_ids: Mapping[str, int], only: Collection[NodeName] | None = None
    ) -> None:
        """Bring the database up to what the driver sees; the keys of service_ids are hosts.

        only restricts it to some nodes. The driver is asked outside of any transaction; each
        node's row and its guests are written in one. A node that cannot be looked at keeps its row
        and does not keep the others from theirs. Raises DriverError when that is all of them,
        IdentityError or DatabaseUnavailable; rows that are not written yet stay as they were then.
        """
        names = identity.distinct(list(self._driver.nodes()))
        settings = self._settings()
        wanted = [name for name in names if only is None or name in only]
        problems: dict[NodeName, DriverError] = {}
        for start in range(0, len(wanted), BATCH):
            found = []
            for name in wanted[start : start + BATCH]:
                try:
                    found.append(self._look_at(name, service_ids[name.host], settings))
                except DriverError as error:
                    problems[name] = error
            self._account(found)
            # Lets green threads run: SQLite never waits for anything and so never makes way.
            time.sleep(0)
        if problems and len(problems) == len(wanted):
            raise next(iter(problems.values()))
        self._say_unseen(wanted, problems)
        if only is None:
            self._delete_missing(names, service_ids)

    def _look_at(self, name: NodeName, service_id: int, settings: Settings) -> Findings:
        facts = self._driver.facts(name)
        return Findings(
            name=name,
            uuid=facts.uuid or self._kept_uuid(name),
            service_id=service_id,
            settings=settings,
            facts=facts,
            guests=list(self._driver.guests(name)),
            metrics=self._metrics(name),
        )

    def _account(self, found: Sequence[Findings]) -> None:
        """Store what was found of these nodes, as far as it is news."""
        hosts = {each.name.host for each in found}
        recorded = self._database.read(lambda connection: records.read(connection, hosts))
        found = [
            each.beside(recorded.managed.get(each.name, []), recorded.moves.get(each.name, []))
            for each in found
        ]
        self._refuse_renamed([each for each in found if each.name not in recorded.marks])
        news = [each for each in found if self._is_news(each, recorded.marks.get(each.name))]
        if not news:
            return
        accounts = [account(each, self._driver.overhead) for each in news]
        stored = self._database.write(
            lambda connection: storing.store(connection, accounts, self._refresh_after)
        )
        self._kept |= {each.name: (each, stored.generations[each.name]) for each in news}
        self._tell(stored)

    def _is_news(self, found: Findings, mark: Mark | None) -> bool:
        if mark is None or mark.age >= self._refresh_after:
            return True
        return self._kept.get(found.name) != (found, mark.generation)

    def _refuse_renamed(self, new: Sequence[Findings]) -> None:
        """Raise IdentityError if a node without a row is one that had another name so far."""
        if new:
            identity.refuse_renamed(self._database, {each.uuid: each.name for each in new})

    def _delete_missing(self, names: Collection[NodeName], hosts: Collection[str]) -> None:
        marks = self._database.read(lambda connection: compute_nodes.marks(connection, hosts))
        there = set(names)
        gone = [
            name
            for name in (NodeName(*place) for place in marks)
            if name not in there and self._driver.is_gone(name)
        ]
        if not gone:
            return
        LOG.info("Deleting nodes that are gone: %s", ", ".join(name.node for name in gone))
        self._tell(self._database.write(lambda connection: storing.delete(connection, gone)))
        for name in gone:
            self._kept.pop(name, None)

    def _say_unseen(
        self, names: Collection[NodeName], problems: Mapping[NodeName, DriverError]
    ) -> None:
        """Warn of nodes that keep their last figures, once for each reason."""
        for name in names:
            reason = str(problems[name]) if name in problems else ""
            if reason and reason != self._unseen.get(name):
                LOG.warning("Node %s keeps its last figures: %s", name.node, reason)
            self._unseen[name] = reason

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

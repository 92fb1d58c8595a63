# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One audit: look at the nodes, recount what is taken, store both."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from compute_agent import identity, usage
from compute_agent.virt.driver import Driver, Guest, NodeFacts, NodeName
from inventory import compute_nodes, instances
from inventory.engine import Database
from scheduler.objects import documents

LOG = log.getLogger(__name__)
# So many nodes share a transaction. A real hypervisor is one node; only the fake has more.
BATCH = 500
NO_METRICS = "[]"
NO_PCI_DEVICES = documents.pci_pools_to_json([])


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one look at a node gave, in the form in which it is stored."""

    name: NodeName
    row: dict[str, Any]
    instances: list[dict[str, Any]]


class ResourceTracker:
    """Keeps the rows of an agent's nodes and of their guests true."""

    def __init__(self, conf: cfg.ConfigOpts, database: Database, driver: Driver) -> None:
        self._conf = conf
        self._database = database
        self._driver = driver
        self._uuids: dict[NodeName, str] = {}

    def audit(self, service_ids: Mapping[str, int]) -> None:
        """Bring the database up to what the driver sees; the keys of service_ids are hosts.

        The driver is asked outside of any transaction. Each node's row and its guests are written
        in one. Raises DriverError, IdentityError or DatabaseUnavailable; rows that are not written
        yet stay as they were then.
        """
        names = identity.distinct(list(self._driver.nodes()))
        for start in range(0, len(names), BATCH):
            seen = [
                self._look_at(name, service_ids[name.host]) for name in names[start : start + BATCH]
            ]
            self._database.write(partial(_store, seen))
            # Lets green threads run: SQLite never waits for anything and so never makes way.
            time.sleep(0)

    def _look_at(self, name: NodeName, service_id: int) -> _Seen:
        facts = self._driver.facts(name)
        guests = self._driver.guests(name)
        counted = usage.count(facts, guests, self._reserved())
        LOG.debug(
            "Node %s: %s guests, %s of %s MiB promised, %s used as the hypervisor sees it",
            name.node,
            len(guests),
            counted.memory_mb_used,
            facts.memory_mb,
            facts.memory_used_mb,
        )
        row = {
            "host": name.host,
            "hypervisor_hostname": name.node,
            "uuid": facts.uuid or self._kept_uuid(name),
            "service_id": service_id,
            "host_ip": str(self._conf.my_ip),
            **_capacity(facts),
            **asdict(counted),
            "stats": json.dumps(counted.stats),
            **self._ratios(),
        }
        return _Seen(name, row, [_instance(guest) for guest in guests])

    def _kept_uuid(self, name: NodeName) -> str:
        if name not in self._uuids:
            self._uuids[name] = identity.confirm(self._conf, self._database, name)
        return self._uuids[name]

    def _reserved(self) -> usage.Reserved:
        return usage.Reserved(
            vcpus=self._conf.reserved_host_cpus,
            memory_mb=self._conf.reserved_host_memory_mb,
            disk_mb=self._conf.reserved_host_disk_mb,
        )

    def _ratios(self) -> dict[str, float | None]:
        """Return the ratios; one that is unset, or 0 as Newton has it, leaves the row's alone."""
        initial = {f"initial_{ratio}": self._conf[f"initial_{ratio}"] for ratio in _RATIOS}
        return initial | {ratio: self._conf[ratio] or None for ratio in _RATIOS}


_RATIOS = compute_nodes.RATIOS


def _capacity(facts: NodeFacts) -> dict[str, Any]:
    return {
        "vcpus": facts.vcpus,
        "memory_mb": facts.memory_mb,
        "local_gb": facts.local_gb,
        "disk_available_least": facts.disk_available_least,
        "hypervisor_type": facts.hypervisor_type,
        "hypervisor_version": facts.hypervisor_version,
        "cpu_info": facts.cpu_info,
        "supported_instances": json.dumps(facts.supported_instances),
        "numa_topology": facts.numa_topology,
        "metrics": NO_METRICS,
        "pci_stats": NO_PCI_DEVICES,
    }


def _instance(guest: Guest) -> dict[str, Any]:
    properties = guest.image_properties
    return {
        "uuid": guest.uuid,
        "display_name": guest.name,
        "project_id": guest.project_id,
        "vcpus": guest.vcpus,
        "memory_mb": guest.memory_mb,
        "root_gb": guest.root_gb,
        "vm_state": guest.vm_state,
        "flavor_id": guest.flavor_id,
        "flavor_name": guest.flavor_name,
        # Equal properties make equal texts, which readers parse once.
        "image_properties": None if properties is None else json.dumps(properties, sort_keys=True),
    }


def _store(seen: Sequence[_Seen], connection: sa.Connection) -> None:
    compute_nodes.save(connection, [each.row for each in seen])
    # Of thousands of fake nodes hardly any has a guest: one question instead of one for each.
    occupied = instances.places(connection, {each.name.host for each in seen})
    for each in seen:
        place = (each.name.host, each.name.node)
        if each.instances or place in occupied:
            instances.replace(connection, *place, each.instances)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The committed rows that say who holds what, added up by an arithmetic of their own."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compute_agent.virt.driver import Guest

# vCPUs, memory in MB and disk in MB. The product's arithmetic is what is checked by this one.
Amounts = tuple[int, int, int]
COMING = ("pending", "alternate", "leaving")


@dataclass(slots=True)
class Rows:
    """The rows that say who holds what, as they were committed."""

    nodes: dict[int, dict[str, Any]] = field(default_factory=dict)
    claims: list[dict[str, Any]] = field(default_factory=list)
    instances: list[dict[str, Any]] = field(default_factory=list)
    standbys: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, connection: Any) -> "Rows":
        """Return the rows of a connection of SQLite, outside of all transactions."""
        nodes = _read(connection, "compute_nodes", "id", "host", "vcpus_used", "disk_mb_used",
                      "memory_mb_used", "claims", "deleted", "numa_topology",
                      "pci_stats")  # fmt: skip
        claims = _read(connection, "allocations", "id", "instance_uuid", "state", "host",
                       "compute_node_id", "vcpus", "memory_mb", "disk_mb", "group_uuid",
                       "project_id", "reservation_uuid", "taken_by", "created_at",
                       "numa", "pci")  # fmt: skip
        instances = _read(connection, "instances", "uuid", "host", "vcpus", "memory_mb",
                          "root_gb", "deleted")  # fmt: skip
        standbys = _read(connection, "standbys", "id", "instance_uuid", "place_node_id", "domains",
                         "compute_node_id", "vcpus", "memory_mb", "disk_mb", "mode",
                         "reason")  # fmt: skip
        living = [each for each in instances if not each["deleted"]]
        return cls({each["id"]: each for each in nodes}, claims, living, standbys)

    def places(self) -> list[dict[str, Any]]:
        """Return the places of reservations."""
        return [each for each in self.claims if each["reservation_uuid"]]

    def of_instances(self) -> list[dict[str, Any]]:
        """Return the claims of instances."""
        return [each for each in self.claims if not each["reservation_uuid"]]

    def hosts_of(self, uuid: str, alternates: bool = True) -> set[str]:
        """Return where an instance is, or may come, or where a place is."""
        claimed = {
            each["host"]
            for each in self.claims
            if each["instance_uuid"] == uuid and (alternates or each["state"] != "alternate")
        }
        return claimed | {each["host"] for each in self.instances if each["uuid"] == uuid}

    def standbys_of(self, uuid: str) -> list[dict[str, Any]]:
        """Return the standbys of an instance or a place, and those of the places that it is in."""
        uuids = {each["instance_uuid"] for each in self.places() if each["taken_by"] == uuid}
        return [each for each in self.standbys if each["instance_uuid"] in {uuid, *uuids}]

    def moved_places(self, before: "Rows") -> set[str]:
        """Return the places that are on another node than before."""
        nodes = {each["id"]: each["compute_node_id"] for each in before.places()}
        return {
            each["instance_uuid"]
            for each in self.places()
            if nodes.get(each["id"], each["compute_node_id"]) != each["compute_node_id"]
        }

    def held(self, node_id: int, guests: Mapping[str, Guest], standbys: bool = True) -> Amounts:
        """Return what is held on a node, each instance once, with standbys or not.

        Guests count, and not what their agent has reported: the row of one that has ended since
        promises nothing, and one that is not reported yet may lose its room to nobody.
        """
        sizes = {uuid: size_of(each) for uuid, each in guests.items()}
        total: list[Amounts] = []
        for each in self.claims:
            if each["compute_node_id"] == node_id:
                uuid = each["instance_uuid"]
                if each["reservation_uuid"]:
                    total.append(amounts(each))
                elif each["state"] in COMING or uuid not in sizes:
                    sizes[uuid] = _largest([sizes.get(uuid, (0, 0, 0)), amounts(each)])
        domains: dict[str, list[Amounts]] = defaultdict(list)
        for each in self.standbys:
            if standbys and each["compute_node_id"] == node_id:
                for domain in each["domains"].split(","):
                    domains[domain].append(amounts(each))
        total += [*sizes.values(), _largest(summed(each) for each in domains.values())]
        return summed(total)


def _read(connection: Any, table: str, *columns: str) -> list[dict[str, Any]]:
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}")
    return [dict(zip(columns, row, strict=True)) for row in rows]


def amounts(row: Mapping[str, Any]) -> Amounts:
    """Return what a row takes of a node."""
    return row["vcpus"], row["memory_mb"], row["disk_mb"]


def size_of(guest: Guest) -> Amounts:
    """Return what a guest takes of its host."""
    return guest.vcpus, guest.memory_mb, 1024 * guest.root_gb


def summed(sizes: Iterable[Amounts]) -> Amounts:
    """Return the sum of each resource."""
    return _each(sum, sizes)


def _largest(sizes: Iterable[Amounts]) -> Amounts:
    return _each(max, sizes)


def _each(fold: Callable[..., int], sizes: Iterable[Amounts]) -> Amounts:
    columns = [*zip(*sizes, strict=True)] or [(0,)] * 3
    vcpus, memory_mb, disk_mb = (fold(each) for each in columns)
    return vcpus, memory_mb, disk_mb

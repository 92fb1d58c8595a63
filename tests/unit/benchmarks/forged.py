# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Forged histories of storms: a log of callers and the rows of a database."""

import json
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks.history import Group, Size
from inventory.tables import allocations, compute_nodes, metadata, standbys

SIZE = Size(2, 1024, 10340)
LIMITS = {"vcpu": 8.0, "memory_mb": 4096.0, "disk_gb": 100.0}
HOSTS = {"alpha": 1, "beta": 2}
GENERALLY = {
    "hypervisor_type": "fake",
    "hypervisor_version": 1,
    "cpu_info": "",
    "cpu_allocation_ratio": 2.0,
    "ram_allocation_ratio": 1.0,
    "disk_allocation_ratio": 1.0,
    "generation": 1,
}


class Forger:
    """Writes the log and the rows of a history; what is placed is claimed as it should be."""

    def __init__(self, directory: Path) -> None:
        self.log, self.url = directory / "callers.log", f"sqlite:///{directory}/forged.sqlite"
        self.engine = sa.create_engine(self.url)
        # Nobody needs these files for longer than the test.
        sa.event.listen(
            self.engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous = 0")
        )
        self._moments = count(1)
        self._ids = count(1)
        metadata.create_all(self.engine)
        self.log.touch()
        for host, node_id in HOSTS.items():
            self.insert(
                compute_nodes,
                id=node_id,
                uuid=host,
                host=host,
                hypervisor_hostname=host,
                **{"vcpus": 4, "memory_mb": 4096, "local_gb": 100},
                **{"vcpus_used": 0, "memory_mb_used": 512, "local_gb_used": 0, "disk_mb_used": 0},
                **{"free_ram_mb": 3584, "free_disk_gb": 100, "claims": 0},
                **GENERALLY,
            )

    def insert(self, table: sa.Table, **values: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.insert(table).values(**values))

    def execute(self, statement: str) -> None:
        with self.engine.begin() as connection:
            assert connection.execute(sa.text(statement)).rowcount > 0

    def asked(
        self,
        request: str,
        *uuids: str,
        size: Size = SIZE,
        group: Group | None = None,
        build: int = 1,
        attempt: int = 1,
        zone: str | None = None,
        **promises: bool,
    ) -> None:
        more = {"instances": uuids, "size": asdict(size), "group": group and asdict(group)}
        more |= {"zone": zone, **promises}
        self._write("asked", request, build=build, attempt=attempt, **more)

    def answered(
        self,
        request: str,
        outcome: str,
        *hosts: str,
        build: int = 1,
        attempt: int = 1,
        reason: str = "why",
    ) -> None:
        places = [{"host": each, "node": each, "limits": LIMITS} for each in hosts]
        more = {"outcome": outcome, "reason": reason, "places": places}
        self._write("answered", request, build=build, attempt=attempt, **more)

    def ordered(self, host: str, what: str, value: Any, **more: Any) -> None:
        """Write an order that an operator gave when nothing else happened, unless more says so."""
        times = {} if "began" in more else {name: next(self._moments) for name in ("began", "at")}
        line = {"event": "ordered", "host": host, "what": what, "value": value}
        with self.log.open("a") as log:
            log.write(json.dumps({**line, **times, **more}) + "\n")

    def unanswered(self, request: str, build: int = 1, attempt: int = 1) -> None:
        self._write("unanswered", request, build=build, attempt=attempt)

    def claimed(self, request: str, uuid: str, host: str, size: Size = SIZE, **more: Any) -> None:
        """Write a claim, and count it on its node."""
        self.insert(
            allocations,
            **{
                "id": next(self._ids),
                "instance_uuid": uuid,
                "slot": 0,
                "state": "pending",
                "compute_node_id": HOSTS.get(host, 99),
                "host": host,
                "node": host,
                "request_id": request,
                "vcpus": size.vcpus,
                "memory_mb": size.memory_mb,
                "disk_mb": size.disk_mb,
                "root_gb": 1,
                "ephemeral_gb": 0,
                **more,
            },
        )
        if host in HOSTS and more.get("state") != "confirmed":
            self.count(host, size, 1)

    def standby(self, uuid: str, place: str, host: str, domains: str, size: Size = SIZE) -> None:
        """Write a standby, which is not counted."""
        self.insert(
            standbys,
            **{"id": next(self._ids), "instance_uuid": uuid, "mode": "required", "request": "{}"},
            **{"place_node_id": HOSTS[place], "domains": domains, "compute_node_id": HOSTS[host]},
            **asdict(size),
        )

    def left(self, request: str, *uuids: str) -> None:
        self._write("left", request, build=1, instances=uuids)

    def count(self, host: str, size: Size, claims: int = 0) -> None:
        self.execute(
            f"UPDATE compute_nodes SET vcpus_used = vcpus_used + {size.vcpus},"
            f" memory_mb_used = memory_mb_used + {size.memory_mb},"
            f" free_ram_mb = free_ram_mb - {size.memory_mb},"
            f" disk_mb_used = disk_mb_used + {size.disk_mb},"
            f" local_gb_used = (disk_mb_used + {size.disk_mb} + 1023) / 1024,"
            f" free_disk_gb = local_gb - (disk_mb_used + {size.disk_mb} + 1023) / 1024,"
            f" claims = claims + {claims} WHERE host = '{host}'"
        )

    def placed(self, request: str, uuid: str, host: str, **more: Any) -> None:
        """Write a request that was placed and claimed as it should be."""
        self.asked(request, uuid, **more)
        numbers = {"build": more.get("build", 1), "attempt": more.get("attempt", 1)}
        self.answered(request, "placed", host, **numbers)
        self.claimed(request, uuid, host, more.get("size", SIZE))

    def _write(self, event: str, request: str, **more: Any) -> None:
        line = {"event": event, "at": next(self._moments), "request": request, **more}
        with self.log.open("a") as log:
            log.write(json.dumps(line) + "\n")

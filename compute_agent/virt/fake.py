# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A driver that plays any number of equal hosts, always the same ones for the same options."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid5

from compute_agent.virt.driver import Driver, DriverUnavailable, Guest, NodeFacts, NodeName

NAMESPACE = UUID("b5b1c2a6-6f0e-4c57-9d8e-0d1f7f3b6a11")
VERSION = 1_000_000
CPU_INFO = json.dumps(
    {
        "arch": "x86_64",
        "model": "Nehalem",
        "vendor": "Intel",
        "topology": {"cells": 1, "sockets": 2, "cores": 4, "threads": 2},
        "features": ["aes", "sse4.1", "sse4.2", "vme"],
    }
)
# The kinds that images ask for, besides our own: requests need not know that they go to a fake.
SUPPORTED = tuple(("x86_64", kind, "hvm") for kind in ("fake", "kvm", "qemu"))


class FakeDriver(Driver):
    """Hosts that exist in the database only. Tests give them guests and take them away."""

    knows_uuids = True

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self._names = _names(conf.host, conf.fake.hosts)
        self._guests: dict[str, dict[str, Guest]] = {}
        self._outage: str | None = None
        self._each = NodeFacts(
            vcpus=conf.fake.vcpus,
            memory_mb=conf.fake.memory_mb,
            local_gb=conf.fake.local_gb,
            hypervisor_type="fake",
            hypervisor_version=VERSION,
            cpu_info=CPU_INFO,
            supported_instances=SUPPORTED,
        )

    def hosts(self) -> Sequence[str]:
        return self._names

    def nodes(self) -> Sequence[NodeName]:
        self._answer()
        return [NodeName(host=name, node=name) for name in self._names]

    def facts(self, node: NodeName) -> NodeFacts:
        self._answer()
        taken = sum(guest.root_gb for guest in self._guests.get(node.host, {}).values())
        return replace(
            self._each,
            uuid=str(uuid5(NAMESPACE, node.host)),
            disk_available_least=self._each.local_gb - taken,
        )

    def guests(self, node: NodeName) -> Sequence[Guest]:
        self._answer()
        return list(self._guests.get(node.host, {}).values())

    def close(self) -> None:
        self.fail("the fake driver is closed")
        self.changes.close()

    def add_guest(self, host: str, guest: Guest) -> None:
        """Let a host have one more guest, or another one in the place of its namesake."""
        self._guests.setdefault(host, {})[guest.uuid] = guest
        self._note(host)

    def remove_guest(self, host: str, uuid: str) -> None:
        """Let a guest be gone."""
        del self._guests[host][uuid]
        self._note(host)

    def fail(self, reason: str | None) -> None:
        """Answer every question with DriverUnavailable, or with None truly again."""
        self._outage = reason

    def _note(self, host: str) -> None:
        self.changes.note(NodeName(host, host))

    def _answer(self) -> None:
        if self._outage is not None:
            raise DriverUnavailable(self._outage)


def _names(host: str, number: int) -> list[str]:
    if number == 1:
        return [host]
    return [f"{host}-{position:04d}" for position in range(1, number + 1)]

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Total and used memory come from one source, by the rule for the kind of the hypervisor."""

from typing import Any

import pytest

from compute_agent.host_memory import HostMemory
from compute_agent.virt.libvirt import host
from tests.fixtures.agent import sample
from tests.unit.compute_agent.virt.libvirt.library import (
    NO_DOMAIN,
    NO_SUPPORT,
    OPERATION_TIMEOUT,
    Daemon,
    Error,
)

CAPTURED = sample("nodeinfo-qemu-system.json")["calls"]["getMemoryStats(-1)"]
LIBVIRT_MB = 6234


def look(kind: str, is_local: bool = False, **answers: Any) -> HostMemory:
    daemon = Daemon(**{"getMemoryStats": CAPTURED} | answers)
    return host.read_memory(daemon.library, daemon.open("test:///x"), LIBVIRT_MB, kind, is_local)


class Running:
    """A running domain with so much memory."""

    def __init__(self, number: int, kib: int | Exception) -> None:
        self._number = number
        self._kib = kib

    def ID(self) -> int:
        return self._number

    def info(self) -> list[int]:
        if isinstance(self._kib, Exception):
            raise self._kib
        return [1, 9 * self._kib, self._kib, 1, 0]


def test_memory_of_another_host_comes_from_its_own_meminfo() -> None:
    found = look("QEMU")
    assert found.total_mb == CAPTURED["total"] // 1024 == 24105
    used = CAPTURED["total"] - CAPTURED["free"] - CAPTURED["buffers"] - CAPTURED["cached"]
    assert found.used_mb == used // 1024


def test_memory_of_this_host_comes_from_meminfo() -> None:
    line = next(each for each in host.MEMINFO.read_text().splitlines() if "MemTotal" in each)
    assert look("QEMU", is_local=True).total_mb == int(line.split()[1]) // 1024


def test_without_a_meminfo_libvirt_is_asked_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "MEMINFO", host.MEMINFO / "not" / "there")
    assert look("QEMU", is_local=True).total_mb == 24105


def test_where_nobody_knows_more_libvirts_total_counts() -> None:
    unsupported = Error(NO_SUPPORT, "not supported")
    assert look("QEMU", getMemoryStats=unsupported) == HostMemory(LIBVIRT_MB, None)


def test_an_imaginary_host_has_no_meminfo() -> None:
    assert look("TEST", is_local=True) == HostMemory(LIBVIRT_MB, None)


def test_xen_counts_its_domains() -> None:
    # Worked by hand in the reference: 4194304 + 2621440 of them free + two guests.
    domains = [Running(0, 4194304), Running(1, 2097152), Running(2, 2097152)]
    gone = Running(3, Error(NO_DOMAIN, "Domain not found"))
    meminfo = {"total": 4194304, "free": 2000000, "buffers": 21440, "cached": 600000}
    found = look("Xen", listAllDomains=[*domains, gone], getMemoryStats=meminfo)
    assert found == HostMemory(LIBVIRT_MB, 5632)


def test_a_domain_that_hangs_does_not_take_its_host_out() -> None:
    stuck = Running(1, Error(OPERATION_TIMEOUT, "Timed out during operation"))
    meminfo = Error(NO_SUPPORT, "not supported")
    found = look("Xen", listAllDomains=[Running(2, 2097152), stuck], getMemoryStats=meminfo)
    assert found == HostMemory(LIBVIRT_MB, 2048)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reading what libvirt says of guests, one after the other, whatever one of them does."""

from collections import deque
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from compute_agent.host_memory import KIB_PER_MIB
from compute_agent.virt.driver import DriverAnswerUnusable, Guest
from compute_agent.virt.libvirt import domain_xml
from compute_agent.virt.libvirt.domain_xml import Parsed

# Xen's own, which runs the others. No other hypervisor has a guest of this number.
DOMAIN_0 = 0


@dataclass(frozen=True, slots=True)
class Undescribed:
    """Why a guest has no usable description, and the outline that libvirt gives without it.

    What is there must count, if only with its CPUs and memory.
    """

    problem: str
    outline: Parsed | None


class Reader:
    """Reads descriptions one after the other, in a native thread.

    found has what was made of them, and None where there is no guest.
    """

    def __init__(self, libvirt: ModuleType, left: deque[tuple[bytes, int, Any]]) -> None:
        self.found: dict[bytes, Parsed | Undescribed | None] = {}
        # The guest whose description is being read.
        self.at: bytes | None = None
        # Nobody waits for it any more.
        self.left = False
        self._libvirt = libvirt
        self._left = left

    def run(self) -> None:
        try:
            while self._left and not self.left:
                self.at, state, domain = self._left.popleft()
                found = self._describe(state, domain)
                if not self.left:
                    self.found[self.at] = found
        finally:
            self.at = None

    def _describe(self, state: int, domain: Any) -> Parsed | Undescribed | None:
        if domain.ID() == DOMAIN_0:
            return None
        try:
            xml = domain.XMLDesc(0)
        except self._libvirt.libvirtError as error:
            code = error.get_error_code()
            if code == self._libvirt.VIR_ERR_NO_DOMAIN:
                return None
            # A timeout says that the guest is stuck, and that its libvirtd is one that minds.
            if code != self._libvirt.VIR_ERR_OPERATION_TIMEOUT and domain.connect().isAlive() != 1:
                raise
            return self._outline(domain, state, " ".join(str(error).split()))
        try:
            return domain_xml.parse(xml, state)
        except DriverAnswerUnusable as error:
            return self._outline(domain, state, str(error))

    def _outline(self, domain: Any, state: int, problem: str) -> Undescribed:
        """Return a guest without a description as far as libvirt tells of it otherwise."""
        try:
            _, memory_kib, _, vcpus, _ = domain.info()
        except self._libvirt.libvirtError:
            return Undescribed(problem, None)
        guest = Guest(
            uuid=domain.UUIDString(),
            name=domain.name(),
            vcpus=vcpus,
            memory_mb=-(-memory_kib // KIB_PER_MIB),
            vm_state=domain_xml.vm_state(state),
        )
        return Undescribed(problem, Parsed(guest, ()))

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the kernel's files say of CPUs that libvirt lists in no cell.

libvirtd learns when it starts which CPUs a cell has, and the kernel leaves out those that are
offline then.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from compute_agent.virt.libvirt.capabilities import Cpu
from compute_agent.virt.libvirt.xml_values import members, number

DIRECTORY = Path("/sys/devices/system/cpu")
_CELL = "node"


def by_cell(cpus: Iterable[int]) -> dict[int, list[Cpu]]:
    """Return CPUs by the cells that they are of; those of which there are no files are left out.

    Of a CPU that is offline neither its socket nor its siblings are known.
    """
    found: dict[int, list[Cpu]] = {}
    for cpu in sorted(cpus):
        own = DIRECTORY / f"cpu{cpu}"
        cells = (number(each.name.removeprefix(_CELL)) for each in own.glob(f"{_CELL}[0-9]*"))
        cell = next((each for each in cells if each is not None), None)
        if cell is not None:
            found.setdefault(cell, []).append(_cpu(cpu, own / "topology"))
    return found


def _cpu(cpu: int, topology: Path) -> Cpu:
    siblings = members(_text(topology / "thread_siblings_list").strip())
    socket = number(_text(topology / "physical_package_id"))
    return Cpu(cpu, socket, frozenset(siblings | {cpu}))


def _text(path: Path) -> str:
    with suppress(OSError, ValueError):
        return path.read_text()
    return ""

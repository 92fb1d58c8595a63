# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The file that keeps which CPUs share a core and a socket, for the next start of the agent.

Nobody knows it of CPUs that Nova's compute service has switched off by then.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from oslo_log import log

from compute_agent.virt.libvirt.capabilities import Cell, Cpu

LOG = log.getLogger(__name__)
FILE = "cpu_cores"


class CoreFile:
    """The cells of a host without their memory, in a file of this directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._written = ""

    def read(self) -> tuple[Cell, ...]:
        """Return what was written last, nothing where it cannot be read."""
        with suppress(OSError, ValueError, TypeError):
            text = self._path.read_text()
            cells = [
                Cell(cell, 0, (), tuple(Cpu(cpu, on, frozenset(core)) for cpu, on, core in cpus))
                for cell, cpus in json.loads(text)
            ]
            self._written = text
            return tuple(cells)
        return ()

    def write(self, cells: Sequence[Cell]) -> None:
        """Write what is known of the CPUs now; a failure is logged."""
        text = json.dumps(
            [
                [cell.id, [[cpu.id, cpu.socket, sorted(cpu.siblings)] for cpu in cell.cpus]]
                for cell in cells
            ]
        )
        if text == self._written:
            return
        self._written = text
        draft = self._path.with_name(f".{FILE}.{os.getpid()}")
        try:
            draft.write_text(text)
            draft.replace(self._path)
        except OSError as error:
            LOG.warning(
                "Cannot write %s: after a restart, the agent will not know the cores of CPUs that"
                " are offline at that time: %s",
                self._path,
                error,
            )
            with suppress(OSError):
                draft.unlink(missing_ok=True)

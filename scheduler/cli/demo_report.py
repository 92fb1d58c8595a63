# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the demonstration prints."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from scheduler.cli import explanation, telling
from scheduler.cli.telling import Table
from scheduler.decision.explaining import Explanation
from scheduler.decision.host_table import HostTable
from scheduler.objects.selection import Selection
from scheduler.rpc.codec import SelectArguments
from scheduler.rpc.json_values import json_value


class Report:
    """Writes the parts of the walk as titles and tables."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    @contextmanager
    def progress(self, text: str) -> Iterator[None]:
        """Say that something takes a while, and when it is over."""
        self._stream.write(f"{text} ...")
        self._stream.flush()
        yield
        self.say(" done.")

    def hosts(self, title: str, hosts: HostTable) -> None:
        rows = [[hosts.get(row, name) for name in _COLUMNS] for row in sorted(hosts.rows())]
        self._table(title, list(_COLUMNS.values()), rows)

    def request(self, title: str, asked: SelectArguments) -> None:
        spec = asked.spec
        row = [len(asked.instance_uuids), spec.vcpus, spec.memory_mb, spec.root_gb]
        self._table(title, ["instances", "vCPUs each", "memory MB each", "disk GB each"], [row])

    def explained(self, explained: Explanation) -> None:
        """Show survivors filter by filter, then weights; or why there was no host."""
        telling.write_story(explanation.told(json_value(explained)), self._stream)

    def answer(
        self, title: str, uuids: Sequence[str], answer: Sequence[Sequence[Selection]]
    ) -> None:
        rows = [
            [uuid, chosen.service_host, chosen.nodename, _limits(chosen)]
            for uuid, (chosen, *_) in zip(uuids, answer, strict=True)
        ]
        self._table(title, ["instance", "host", "node", "limits"], rows)

    def _table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        telling.write(Table(title, columns, rows), self._stream)


_COLUMNS = {
    "host": "host",
    "hypervisor_type": "hypervisor",
    "vcpus_used": "vCPUs used",
    "vcpus_total": "vCPUs",
    "free_ram_mb": "memory MB free",
    "total_usable_ram_mb": "memory MB",
    "free_disk_mb": "disk MB free",
    "num_instances": "instances",
}


def _limits(selection: Selection) -> str:
    limits = selection.limits
    names = ("vcpu", "memory_mb", "disk_gb")
    found = ((name, getattr(limits, name, None)) for name in names)
    return " ".join(f"{name}={value:g}" for name, value in found if value is not None)

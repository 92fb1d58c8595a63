# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the demonstration prints."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from cliff.formatters.table import TableFormatter

from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision, Refusal
from scheduler.objects.selection import Selection
from scheduler.rpc.codec import SelectArguments


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

    def decision(self, decision: Decision) -> None:
        """Show survivors filter by filter, then weights; of a request that failed the former."""
        found = decision.placements[0] if decision.placements else decision.shortage
        steps = [[step.name, step.before, step.after] for step in found.steps] if found else []
        self._table("Hosts left by each filter", ["filter", "before", "after"], steps)
        weighed = decision.placements[0].weighed if decision.placements else ()
        if weighed:
            names = list(weighed[0].shares)
            rows = [
                [each.host, *(_rounded(each.shares[name]) for name in names), _rounded(each.total)]
                for each in weighed
            ]
            self._table("Weights of the best hosts", ["host", *names, "total"], rows)

    def refusals(self, refusals: Sequence[Refusal]) -> None:
        rows = [[each.host, each.filter, each.reason] for each in refusals]
        self._table("Why", ["host", "filter", "reason"], rows)

    def answer(
        self, title: str, uuids: Sequence[str], answer: Sequence[Sequence[Selection]]
    ) -> None:
        rows = [
            [uuid, chosen.service_host, chosen.nodename, _limits(chosen)]
            for uuid, (chosen, *_) in zip(uuids, answer, strict=True)
        ]
        self._table(title, ["instance", "host", "node", "limits"], rows)

    def _table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.say(f"\n{title}")
        formatter = TableFormatter()
        formatter.emit_list(columns, rows, self._stream, _PLAIN)


class _Plain:
    """The options of cliff's tables, at their defaults."""

    max_width = 0
    fit_width = False
    print_empty = False


_PLAIN = _Plain()
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


def _rounded(weight: float) -> str:
    # Adding zero turns -0.0, which a negative multiplier makes of 0, into 0.0.
    return f"{weight + 0.0:.3f}"


def _limits(selection: Selection) -> str:
    limits = selection.limits
    names = ("vcpu", "memory_mb", "disk_gb")
    found = ((name, getattr(limits, name, None)) for name in names)
    return " ".join(f"{name}={value:g}" for name, value in found if value is not None)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The figures of each configuration that was simulated, as a table."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from inventory.errors import counted
from scheduler.operators.cli.base import Table

_COLUMNS = (
    *("Configuration", "Runs", "Requests", "Refused", "First Refused At %"),
    *("vCPU %", "Memory %", "Disk %", "Stranded Memory %", "Empty Hosts", "Drain Moves"),
)
# The facts about a run, as JSON has them.
Document = Mapping[str, Any]


def heading(documents: Sequence[Document]) -> str:
    """Return what was simulated, and when the figures of hosts are from."""
    hosts, requests = documents[0]["hosts"], documents[0]["requests"]
    size = f"{counted(hosts, 'host')}, {counted(requests, 'request')} in each run"
    return f"{size}; the figures of hosts are those at the end of a run"


def summary(documents: Sequence[Document]) -> Table:
    """Return the means of the runs of each configuration."""
    names = dict.fromkeys(each["configuration"] for each in documents)
    rows = [
        _row(name, [each for each in documents if each["configuration"] == name]) for name in names
    ]
    further = ["Placed Instances"] if documents[0].get("failover") else []
    further += [] if documents[0]["as_decided"] is None else ["As Decided"]
    return Table("", (*_COLUMNS, *further), rows)


def _row(name: str, runs: Sequence[Document]) -> tuple[Any, ...]:
    ends = [run["samples"][-1]["usage"] for run in runs]
    firsts = [run["first_refusal"]["usage"] for run in runs if run["first_refusal"]]

    def percent(usages: list[dict[str, Any]], kind: str, resource: str) -> str:
        return f"{100 * fmean(usage[kind][resource] for usage in usages):.1f}"

    placed = [run["placed_instances"] for run in runs if run.get("failover")]
    return (
        name,
        len(runs),
        f"{fmean(run['requests'] for run in runs):.0f}",
        f"{fmean(run['refused'] for run in runs):.1f}",
        f"{100 * fmean(max(usage['used'].values()) for usage in firsts):.1f}" if firsts else "-",
        *(percent(ends, "used", each) for each in ("vcpus", "memory", "disk")),
        percent(ends, "stranded", "memory"),
        f"{fmean(usage['empty_hosts'] for usage in ends):.1f}",
        f"{fmean(usage['drain_moves'] for usage in ends):.1f}",
        *([f"{fmean(placed):.1f}"] if placed else []),
        *(str(run["as_decided"]) for run in runs if run["as_decided"] is not None),
    )

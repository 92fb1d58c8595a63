# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of metrics in the page admin/monitoring, and what a daemon really has."""

import re
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from tests.guides import page

_ROW = re.compile(r"^   \* - ``(berthmaster_\w+)``$", re.M)


def documented(daemon: str) -> list[str]:
    """Return the names in the table of a daemon."""
    text = page("admin/monitoring").split(f"\nMetrics of the {daemon}\n")[1]
    return sorted(_ROW.findall(re.split(r"\n=+\n", text)[0]))


def served(families: Iterable[Metric]) -> list[str]:
    """Return the names of metrics of ours as they are written."""
    names = {family.name: "_total" if family.type == "counter" else "" for family in families}
    return sorted(name + end for name, end in names.items() if name.startswith("berthmaster_"))

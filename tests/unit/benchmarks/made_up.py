# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What benchmarks might have found."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.document import Document, Part
from benchmarks.figures import OURS, Figure

NOW = "2026-01-02T03:04:05+00:00"
MACHINE = {"cpu": "Z80", "cores": 2, "memory_gib": 1.5, "kernel": "Linux 6.1", "distribution": "D"}
PLAIN = {"weighing": "spread", "grouped": 0, "aggregate_sets": 40}


def decided(hosts: int, instances: int, *turns: float, who: str = OURS, **more: Any) -> Figure:
    """Return what a decision has cost in so many turns."""
    case = {"hosts": hosts, "instances": instances, **PLAIN, **more}
    return Figure("decide", who, "ms", turns, case)


def a_document(figures: Sequence[Figure], **changes: Any) -> Document:
    """Return the document of a run of decisions that has found these figures."""
    parts = {"decisions": Part(NOW, "v1", 1.0, figures=figures)}
    known = {"quick": False, "machine": MACHINE, "versions": {"Berthmaster": "v1", "Nova": None}}
    return Document(NOW, **{**known, "parts": parts, **changes})


def a_file(directory: Path, *figures: Figure, **changes: Any) -> Path:
    """Write a document; return its path."""
    path = directory / "latest.json"
    a_document(figures, **changes).write(path)
    return path

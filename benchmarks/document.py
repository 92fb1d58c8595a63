# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The file that holds what all benchmarks have found on a machine, and how it is read again."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks.figures import Figure, ratios

SCHEMA = 1
RESULTS = Path(__file__).parent / "results"
LATEST = RESULTS / "latest.json"
# More digits than these are noise, and as many bytes.
DIGITS = 5


class Unreadable(Exception):
    """There is no such file, or it is not what the benchmarks write."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


@dataclass(slots=True)
class Part:
    """What one benchmark has found, or why it has found nothing; our is our own revision then."""

    when: str
    our: str
    seconds: float
    failed: str | None = None
    figures: Sequence[Figure] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return what is written down: also what follows from the figures, which are rounded."""
        turns = [_rounded(list(each.turns)) for each in self.figures]
        figures = [
            dataclasses.replace(each, turns=some)
            for each, some in zip(self.figures, turns, strict=True)
        ]
        return {
            "when": self.when,
            "our": self.our,
            "seconds": self.seconds,
            "failed": self.failed,
            "figures": [each.to_dict() for each in figures],
            "ratios": [each.to_dict() for each in ratios(figures)],
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return what was written down."""
        figures = [Figure.from_dict(each) for each in found["figures"]]
        return cls(found["when"], found["our"], found["seconds"], found["failed"], figures)


@dataclass(slots=True)
class Document:
    """When, on what machine, with which versions, and the parts by name."""

    when: str
    quick: bool
    machine: Mapping[str, Any]
    versions: Mapping[str, str | None]
    parts: dict[str, Part] = field(default_factory=dict)

    @property
    def figures(self) -> list[Figure]:
        """Those of all parts."""
        return [each for part in self.parts.values() for each in part.figures]

    def write(self, path: Path) -> None:
        """Write it whole or not at all."""
        described = {
            "schema": SCHEMA,
            "when": self.when,
            "quick": self.quick,
            "machine": self.machine,
            "versions": self.versions,
            "parts": {name: each.to_dict() for name, each in self.parts.items()},
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, _written(_rounded(described)) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what was written; raises Unreadable."""
        try:
            found = json.loads(path.read_text())
            if found["schema"] != SCHEMA:
                raise Unreadable(path, f"is of form {found['schema']}, not {SCHEMA}")
            parts = {name: Part.from_dict(each) for name, each in found["parts"].items()}
            known = (found[name] for name in ("when", "quick", "machine", "versions"))
            return cls(*known, parts)
        except FileNotFoundError:
            raise Unreadable(path, "there is no such file: run make bench") from None
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise Unreadable(path, f"is no file of benchmarks: {error!r}") from error


def replace(path: Path, text: str) -> None:
    """Put a text in the place of a file, whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text)
    beside.replace(path)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _written(value: Any, margin: str = "") -> str:
    """Return JSON in which each item of a list has a line, so that changes can be read."""
    if isinstance(value, dict) and value:
        rows = [
            f"{json.dumps(name)}: {_written(each, margin + ' ')}" for name, each in value.items()
        ]
        begins, ends = "{}"
    elif isinstance(value, list) and value:
        rows, (begins, ends) = [json.dumps(each) for each in value], "[]"
    else:
        return json.dumps(value)
    inside = ",\n".join(f"{margin} {each}" for each in rows)
    return f"{begins}\n{inside}\n{margin}{ends}"

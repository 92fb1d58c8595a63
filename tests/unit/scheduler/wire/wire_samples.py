# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The captured messages under tests/fixtures/wire."""

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[3] / "fixtures" / "wire"


@cache
def _text(name: str) -> str:
    return (FOLDER / f"{name}.json").read_text()


def names(pattern: str) -> list[str]:
    """Return the names of the samples that match, without the suffix."""
    found = sorted(path.stem for path in FOLDER.glob(f"{pattern}.json"))
    assert found, pattern
    return found


def sample(name: str) -> dict[str, Any]:
    """Return a sample of its own: tests may change it."""
    parsed: dict[str, Any] = json.loads(_text(name))
    return parsed


def arguments(name: str) -> dict[str, Any]:
    """Return the keyword arguments of a captured call or cast."""
    found: dict[str, Any] = sample(name)["message"]["args"]
    return found


def primitive(name: str) -> dict[str, Any]:
    """Return a captured object."""
    found: dict[str, Any] = sample(name)["primitive"]
    return found


def context(name: str) -> dict[str, Any]:
    """Return the context as an endpoint receives it."""
    message = sample(name)["message"]
    entries = {
        key.removeprefix("_context_"): each
        for key, each in message.items()
        if key.startswith("_context_")
    }
    return entries | {"client_timeout": message.get("_timeout")}

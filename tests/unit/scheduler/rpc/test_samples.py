# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""No sample lies there for nothing: some test names it, by itself or among others."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.unit.scheduler.rpc import wire

TESTS = Path(__file__).parents[3]
ALL = wire.names("*")
PREFIXES = tuple({name.partition("_")[0] for name in ALL})


def _patterns(source: Path) -> Iterator[str]:
    """Yield the texts of a module that may be names of samples, with * for what is put in."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(each.value) if isinstance(each, ast.Constant) else "*" for each in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.fixture(scope="module")
def patterns() -> set[str]:
    sources = (each for each in TESTS.rglob("*.py") if "peer" not in each.parts)
    found = {pattern for source in sources for pattern in _patterns(source)}
    return {each for each in found if each.startswith(PREFIXES) and " " not in each}


@pytest.mark.parametrize("name", ALL)
def test_some_test_reads_it(patterns: set[str], name: str) -> None:
    # Replies are found by the name of the call.
    names = {name, name.replace("reply_", "call_", 1)}
    assert any(fnmatchcase(each, pattern) for each in names for pattern in patterns)


def test_all_of_them_are_described() -> None:
    described = {each["file"] for each in wire.sample("index")["files"]}
    assert described == {f"{name}.json" for name in ALL} - {"index.json"}

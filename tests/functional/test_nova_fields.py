# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The page about the wire has every field that Nova's own classes have."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import wire_page
from tests.fixtures import availability
from tests.fixtures.daemons.process import PATIENCE

SCRIPT = Path(__file__).parents[1] / "peer" / "fields.py"
CLASSES = {name: section for name, section in wire_page.read().items() if section.version}


@cache
def _of_nova() -> dict[str, Any]:
    availability.require(availability.NOVA)
    python = availability.PEER / "bin" / "python"
    run = subprocess.run(
        [python, "-W", "ignore", SCRIPT, *CLASSES],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_there_are_classes():
    assert {"RequestSpec", "ImageMetaProps", "Selection", "Aggregate"} <= CLASSES.keys()


@pytest.mark.parametrize("name", CLASSES)
def test_the_page_has_the_fields_of_the_class(name):
    assert CLASSES[name].fields.keys() == set(_of_nova()[name]["fields"])


@pytest.mark.parametrize("name", CLASSES)
def test_the_page_has_the_version_of_the_class(name):
    assert CLASSES[name].version == _of_nova()[name]["version"]

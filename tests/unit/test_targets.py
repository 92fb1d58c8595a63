# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The guide for contributors says of the targets that test what the Makefile says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("target", ["test", "test-matrix", "test-release"])
def test_the_guide_has_the_words_of_the_makefile(target: str) -> None:
    (said,) = re.findall(rf"^{target}: ## (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    rows = (ROOT / "CONTRIBUTING.rst").read_text().splitlines()
    assert f"{f'``make {target}``':21} {said}" in rows

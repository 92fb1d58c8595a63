# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.stored_documents."""

import json

import pytest

from inventory import stored_documents


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, None, "7"])
def test_a_text_that_cannot_be_read_is_named_once(text, caplog):
    stored_documents.warn.cache_clear()
    for number in (1, 1, 2):
        noun = f"Thing {number}"
        assert stored_documents.read(lambda it: dict(json.loads(it)), text, noun, "do so") is None
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(" cannot be read (")[0] for line in lines] == ["Thing 1", "Thing 2"]
    assert all(line.endswith("): do so") and len(line) < 300 for line in lines)


def test_one_that_can_be_read_is_returned(caplog):
    assert stored_documents.read(json.loads, '{"a": 1}', "Thing", "") == {"a": 1}
    assert not caplog.records

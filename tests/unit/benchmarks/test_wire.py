# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.wire: each captured call is answered as its caller asks."""

import pytest
from oslo_context import context as oslo

from benchmarks import wire

CALLS = sorted(path.stem for path in wire.CAPTURED.glob("call_*select_destinations*.json"))


@pytest.fixture(autouse=True)
def _no_context_left_behind():
    yield
    if hasattr(oslo._request_store, "context"):
        del oslo._request_store.context


@pytest.mark.parametrize("name", CALLS)
def test_the_answer_is_what_its_caller_asks_for(name):
    call = wire.Call(name)
    asked, digest = call.decode()
    answer = call.encode()
    assert len(answer) == len(asked.instance_uuids)
    assert isinstance(answer[0], list if asked.return_objects else dict)
    assert len(digest) == 64
    call.context()
    assert oslo.get_current().project_id == "project1"

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of select_destinations with stored answers that cannot be read."""

import pytest

from inventory import stored_documents
from scheduler.wire.errors import InvalidInput
from tests.databases import execute
from tests.unit.scheduler.select_destinations.test_loop_requests import (
    U,
    a_scheduler,
    ask,
    claimed,
    cloud,
)

__all__ = ["cloud"]
CUT_OFF = '[{"service_host": "h'
TEXTS = [CUT_OFF, "[[", '{"later": 1}', "[null]", "7", "[]", ""]


def spoil(database, uuid, text):
    """Write a text in place of the stored answer of an instance."""
    stored_documents.warn.cache_clear()
    query = "UPDATE allocations SET answer = :text WHERE instance_uuid = :uuid"
    execute(database, query, text=text, uuid=uuid)


@pytest.mark.parametrize("text", TEXTS)
def test_a_request_whose_answer_cannot_be_read_is_refused_alone(cloud, caplog, text):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[0])
    ask(scheduler, U[1], request_id="req-2")
    spoil(cloud, U[0], text)
    before = claimed(cloud)
    for _ in range(2):
        with pytest.raises(InvalidInput, match=f"stored answer for instance {U[0]} cannot be read"):
            ask(scheduler, U[0])
    said = f"The stored answer of the claim of instance {U[0]} cannot be read"
    (line,) = (each for each in caplog.messages if each.startswith(said))
    assert f"claim release {U[0]}" in line
    assert claimed(cloud) == before
    assert ask(scheduler, U[1], request_id="req-2") == [before[U[1]]]
    # As the warning says.
    assert ask(scheduler, U[0], request_id="req-3") == [claimed(cloud)[U[0]]]


def test_the_rest_of_a_request_is_not_claimed_beside_an_answer_that_cannot_be_read(cloud):
    scheduler = a_scheduler(cloud)
    ask(scheduler, U[0], U[1])
    spoil(cloud, U[0], CUT_OFF)
    execute(cloud, "DELETE FROM allocations WHERE instance_uuid = :uuid", uuid=U[1])
    with pytest.raises(InvalidInput, match=U[0]):
        ask(scheduler, U[0], U[1])
    assert [*claimed(cloud)] == [U[0]]

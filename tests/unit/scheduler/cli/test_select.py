# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command select where a scheduler finds no host. Functional tests ask real ones."""

import re
from typing import ClassVar

import pytest

from scheduler.client import scheduler_client
from scheduler.wire.errors import NoValidHost

TOLD = "No valid host was found. Too few."


class FullCloud:
    """A client of a scheduler that has no host for anything."""

    asked: ClassVar[list[str]] = []

    def __init__(self, conf):
        pass

    def close(self):
        pass

    def select_destinations(self, caller, *_arguments):
        self.asked.append(caller.request_id)
        raise NoValidHost("Too few.")


@pytest.fixture
def full(monkeypatch):
    monkeypatch.setattr(FullCloud, "asked", [])
    monkeypatch.setattr(scheduler_client, "SchedulerClient", FullCloud)
    return FullCloud


def test_who_is_refused_learns_where_to_ask(command, full):
    refused = command.refused("select")
    (request,) = full.asked
    assert re.fullmatch("req-[0-9a-f-]{36}", request)
    assert refused == f"{TOLD}\n'berthmaster explain {request}' says why"


def test_there_is_nothing_to_explain_where_nothing_is_kept(command, full):
    with command.config.open("a") as config:
        config.write("[decisions]\nkeep = false\n")
    assert command.refused("select") == TOLD


def test_cells_that_are_not_understood_are_refused_before_anybody_is_asked(command, full):
    refused = command.refused("select", "--extra-spec=hw:cpu_policy=mixed")
    assert refused == "hw:cpu_policy: 'mixed' is not one of shared, dedicated"
    assert full.asked == []

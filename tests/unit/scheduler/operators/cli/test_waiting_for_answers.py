# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which daemon a command names when no answer comes, on a slow machine."""

from argparse import Namespace
from io import StringIO
from threading import Event
from types import SimpleNamespace

import pytest
from oslo_config import cfg

from scheduler.client.agent_client import silent_broker
from scheduler.operators.cli.base import BaseCommand
from scheduler.wire.errors import NoAnswer, ServiceUnavailable


class SlowClient:
    """A client whose closing takes longer than anybody waits."""

    def __init__(self, has_reached_broker: bool) -> None:
        self._has_reached_broker = has_reached_broker
        self.closing = Event()
        self.may_end = Event()

    def no_answer(self, timeout: float) -> ServiceUnavailable:
        return NoAnswer("nobody answered") if self._has_reached_broker else silent_broker(timeout)

    def call(self) -> None:
        raise self.no_answer(0.1)

    def hang(self) -> None:
        self.may_end.wait()

    def close(self) -> None:
        self.closing.set()
        self.may_end.wait()


class Asking(BaseCommand):
    """A command that waits for answers."""

    def take_action(self, parsed_args):
        """Do nothing."""


@pytest.fixture
def command():
    app = SimpleNamespace(
        stderr=StringIO(), conf=cfg.ConfigOpts(), options=SimpleNamespace(database_timeout=None)
    )
    return Asking(app, Namespace())


@pytest.mark.parametrize("call", ["call", "hang"])
@pytest.mark.parametrize(
    ("has_reached_broker", "text"), [(True, "nobody answered"), (False, "The message broker of")]
)
def test_the_broker_is_named_only_if_it_was_not_reached(command, call, has_reached_broker, text):
    client = SlowClient(has_reached_broker)
    try:
        with pytest.raises(ServiceUnavailable) as raised:
            command.wait_for("a scheduler", 0.1, client, getattr(client, call))
    finally:
        client.may_end.set()
    assert raised.value.reason.startswith(text)
    assert client.closing.is_set()

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A heart stops in time, also while the database does not answer."""

from threading import Event

from inventory import services
from inventory.heartbeat import Heartbeat

PATIENCE = 30.0


class Hanging:
    """A database that answers twice, and hangs from then on."""

    def __init__(self):
        self.answers = [[1], 1]
        self.hangs, self.may_answer = Event(), Event()

    def write(self, work):
        if self.answers:
            return self.answers.pop(0)
        self.hangs.set()
        assert self.may_answer.wait(PATIENCE)
        return 1


def test_a_stop_does_not_wait_for_a_database_that_hangs(caplog):
    database = Hanging()
    heart = Heartbeat(database, ["h1"], services.COMPUTE, interval=0.01)
    heart.start()
    assert database.hangs.wait(PATIENCE)
    heart.stop(0.05)
    assert caplog.messages == ["Heartbeat still waits for the database; stopping without it"]
    database.may_answer.set()
    heart.stop()
    assert not heart._thread.is_alive()

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Each part of a process is stopped, whatever becomes of the others."""

from conf.stopping import stop_each


def test_what_fails_is_told_and_the_rest_is_done(caplog):
    done = []

    def fail():
        raise ConnectionResetError(104, "Connection reset by peer")

    stop_each(lambda: done.append(1), fail, lambda: done.append(2))
    assert done == [1, 2]
    assert caplog.messages == [
        "Stopping goes on although a part of it failed:"
        " ConnectionResetError: [Errno 104] Connection reset by peer"
    ]

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of conf.daemon.reloads: none is lost, two never run at a time, none after the stop."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from conf.daemon.reloads import Reloads
from tests.backends import DEFAULT, OTHER
from tests.fixtures.daemons.process import PATIENCE, wait_until

# A daemon whose service says when it starts, and does nothing.
DAEMON = """
import os, sys, threading
from conf.daemon import process

def patch():
    import eventlet
    eventlet.monkey_patch()

process.begin("prog", patch)

from oslo_config import cfg
from oslo_log import log

class Service:
    stopped = threading.Event()
    def start(self): os.write(1, b"started\\n")
    def stop(self): self.stopped.set()
    def wait(self): self.stopped.wait()

conf = cfg.ConfigOpts()
log.register_options(conf)
conf([])
sys.exit(process.serve(conf, Service(), int(sys.argv[1]), []))
"""


def made(reload: Callable[[], None]) -> Reloads:
    """Return reloads that are requested by the test alone."""
    reloads = Reloads(reload)
    reloads.takes_signals = False
    return reloads


def test_what_is_requested_before_the_start_and_during_a_reload_is_done() -> None:
    begun, may_end = SimpleQueue[int](), SimpleQueue[int]()

    def reload() -> None:
        begun.put(1)
        may_end.get(timeout=PATIENCE)

    reloads = made(reload)
    reloads.request()
    reloads.start()
    begun.get(timeout=PATIENCE)
    reloads.request()
    may_end.put(1)
    begun.get(timeout=PATIENCE)
    may_end.put(1)
    reloads.stop()


def test_one_that_fails_is_logged_and_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    begun = SimpleQueue[int]()

    def reload() -> None:
        begun.put(1)
        raise KeyError("a plug-in's own")

    reloads = made(reload)
    reloads.start()
    for _ in range(2):
        reloads.request()
        begun.get(timeout=PATIENCE)
    reloads.stop()
    assert caplog.messages == ["The reload failed"] * 2


def test_a_stop_waits_for_the_one_under_way_and_is_followed_by_none() -> None:
    begun, may_end, done = Event(), Event(), list[str]()

    def reload() -> None:
        begun.set()
        may_end.wait(PATIENCE)
        done.append("reload")

    reloads = made(reload)
    reloads.start()
    reloads.request()
    begun.wait(PATIENCE)
    stopping = Thread(target=lambda: (reloads.stop(), done.append("stop")))
    stopping.start()
    reloads.request()
    may_end.set()
    stopping.join(PATIENCE)
    assert done[-1] == "stop"


@pytest.mark.parametrize("backend", [DEFAULT, OTHER])
@pytest.mark.parametrize("workers", [1, 2])
def test_no_sighup_ends_a_daemon_that_stops(backend: str, workers: int) -> None:
    """Whenever it comes, until the end of the process."""
    with subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(workers)],
        env={**os.environ, "BERTHMASTER_CONCURRENCY_BACKEND": backend},
        stdout=subprocess.PIPE,
    ) as daemon:
        assert daemon.stdout
        for _ in range(workers):
            assert daemon.stdout.readline() == b"started\n"
        daemon.send_signal(signal.SIGTERM)

        def ended() -> bool:
            daemon.send_signal(signal.SIGHUP)
            return daemon.poll() is not None

        if not wait_until(ended):
            daemon.kill()
        # Nor does it leave a worker behind, which would keep the pipe open.
        assert daemon.stdout.read() == b""
        assert daemon.returncode == 0

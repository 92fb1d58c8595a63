# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The life of the page process: requests come over a socket until the scheduler is gone."""

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from oslo_config import cfg
from oslo_log import log

from scheduler.operators.status_pages.messages import LONGEST_REQUEST, PageRequest
from scheduler.operators.status_pages.page_process import MAX_PAGES
from scheduler.operators.status_pages.routes import Site
from scheduler.operators.status_pages.source import Source

LOG = log.getLogger(__name__)
# What decides about requests is more urgent, and yet somebody waits.
_NICENESS = 5
# Seconds that the reader of an answer may be silent.
_SILENCE = 20.0


def serve(conf: cfg.ConfigOpts, number: int) -> None:
    """Answer the requests of the socket with this number; return when its other end is closed."""
    # The unit forbids it, and the kernel shares out fairly then.
    with suppress(PermissionError):
        os.nice(_NICENESS)
    # A scheduler that reads its files again starts another process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # A terminal sends it to the scheduler, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    site = Site(Source(conf))
    control = socket.socket(fileno=number)
    # Those of green threads never block.
    control.setblocking(True)
    with ThreadPoolExecutor(MAX_PAGES, thread_name_prefix="page") as threads:
        while True:
            data, sockets, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 1)
            if not data:
                break
            threads.submit(_answer, site, data, sockets)
        threads.shutdown(wait=False, cancel_futures=True)
        # A thread may wait for the database for long.
        os._exit(0)


def _answer(site: Site, data: bytes, sockets: list[int]) -> None:
    """Answer one request, unless nobody waits for it any more."""
    for each in sockets:
        with socket.socket(fileno=each) as connection:
            connection.settimeout(_SILENCE)
            try:
                request = PageRequest.from_bytes(data)
                if time.monotonic() < request.until:
                    connection.sendall(site.answer(request).to_bytes())
            except OSError as error:
                LOG.debug("An answer was not read: %s", error)
            except Exception:
                LOG.exception("A request for a page failed")

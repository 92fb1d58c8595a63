# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the broker takes messages, asked over a connection that nothing else waits for."""

import logging

import oslo_messaging
from oslo_config import cfg

from conf.health import THREADS
from scheduler.rpc.host_client import greet
from scheduler.rpc.transport import rpc_transport

_TALKATIVE = "oslo.messaging._drivers.impl_rabbit"


class BrokerCheck:
    """Greets the broker; not by two threads at a time, and by those of conf.health as a rule.

    conf must be the process-wide oslo_config.cfg.CONF, see HostClient. Nothing connects before the
    first greeting.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        # Kept as long as it works. One that has failed once would fail again.
        self._transport: oslo_messaging.Transport | None = None
        logging.getLogger(_TALKATIVE).addFilter(_is_not_of_health)

    def greet(self) -> None:
        """Raise whatever a broker that cannot be used answers with."""
        kept, self._transport = self._transport, None
        # That the broker has closed the connection meanwhile shows only in its use.
        if kept is not None and self._keeps(kept):
            return
        transport = rpc_transport(self._conf)
        try:
            greet(self._conf, transport)
        except Exception:
            transport.cleanup()
            raise
        self._transport = transport

    def close(self) -> None:
        """Give the connection back."""
        logging.getLogger(_TALKATIVE).removeFilter(_is_not_of_health)
        if self._transport is not None:
            self._transport.cleanup()

    def _keeps(self, transport: oslo_messaging.Transport) -> bool:
        try:
            greet(self._conf, transport)
        # Another connection would do, or say what is wrong.
        except Exception:
            transport.cleanup()
            return False
        self._transport = transport
        return True


def _is_not_of_health(record: logging.LogRecord) -> bool:
    """Keep what is found out every few seconds from the log: it is told to whoever asks."""
    return not (record.threadName or "").startswith(f"{THREADS}-")

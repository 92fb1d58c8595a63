# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The RPC server of the agent: it listens as soon as there is a broker, and delays nothing else.

What may wait for a broker runs in threads of its own. Make one per process, after any fork; see
scheduler.client.agent_client for the name under which the agent listens.
"""

import logging
import math
from collections.abc import Sequence
from threading import Event, Lock, Thread

import oslo_messaging
from oslo_config import cfg
from oslo_log import log

from conf.daemon.state_logger import one_line
from conf.private_apis import RABBIT_LOGGER
from scheduler.client.agent_client import TOPIC, server_name
from scheduler.messaging.broker_check import probe_broker
from scheduler.messaging.server import RpcServer
from scheduler.messaging.transport import UnusableTransport, rpc_transport

LOG = log.getLogger(__name__)
# Operations at a time; the rest waits in the broker.
MAX_IN_FLIGHT = 16
FIRST_PAUSE = 1.0
MAX_PAUSE = 60.0
# Seconds that a stop waits for operations under way.
STOP_TIMEOUT = 10.0
# Seconds after which a problem counts as a new one: attempts follow each other within 30.
SAME_PROBLEM = 60.0


class AgentRpcServer:
    """Serves endpoints, and has the transport of the process."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        endpoints: Sequence[object],
        first_pause: float = FIRST_PAUSE,
        patience: float = STOP_TIMEOUT,
    ) -> None:
        self._conf = conf
        self._endpoints = endpoints
        self._first_pause = first_pause
        self._patience = patience
        self._lock = Lock()
        self._transport: oslo_messaging.Transport | None = None
        self._server: RpcServer | None = None
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="rpc", daemon=True)
        self._repetitions = RepetitionFilter()

    @property
    def transport(self) -> oslo_messaging.Transport:
        """The transport, made when it is first asked for, which connects nothing.

        A sender waits for a broker without limit unless it has set retry=0.
        """
        with self._lock:
            if self._transport is None:
                self._transport = rpc_transport(self._conf)
            return self._transport

    def listening(self) -> bool:
        """Return whether it has reached a broker; from then on oslo.messaging reconnects."""
        return self._server is not None

    def start(self) -> None:
        """Listen as soon as there is a broker; return at once."""
        logging.getLogger(RABBIT_LOGGER).addFilter(self._repetitions)
        self._thread.start()

    def stop(self) -> None:
        """Answer what was taken and disconnect; give up after the timeout."""
        self._stopped.set()
        stopping = Thread(target=self._disconnect, name="rpc-stop", daemon=True)
        stopping.start()
        stopping.join(self._patience)
        if stopping.is_alive():
            LOG.warning("The message bus did not stop in time; exiting without a clean disconnect")
        logging.getLogger(RABBIT_LOGGER).removeFilter(self._repetitions)

    def _run(self) -> None:
        pause, logged = self._first_pause, set[str]()
        while problem := self._problem():
            if self._stopped.is_set():
                return
            if problem not in logged:
                logged.add(problem)
                LOG.warning(
                    "No operations over RPC, trying again in %g s and then less often: %s",
                    pause,
                    problem,
                )
            self._stopped.wait(pause)
            pause = min(pause * 2, MAX_PAUSE)
        LOG.info("Listening as %s.%s", TOPIC, server_name(self._conf.host))

    def _problem(self) -> str:
        """Try to listen; return what is wrong, nothing where it listens now."""
        try:
            # If this fails, listening would try again without end, with an error each time.
            probe_broker(self._conf, self.transport)
            server = RpcServer(
                self.transport, TOPIC, server_name(self._conf.host), self._endpoints, MAX_IN_FLIGHT
            )
            server.start()
        # Its text names the option.
        except UnusableTransport as error:
            return str(error)
        # An error of oslo.messaging or below must not end the agent.
        except Exception as error:
            return f"{one_line(error)}; check [DEFAULT] transport_url"
        self._server = server
        return ""

    def _disconnect(self) -> None:
        if self._thread.ident:
            self._thread.join()
        if self._server is not None:
            self._server.drain()
        if self._transport is not None:
            self._transport.cleanup()


class RepetitionFilter(logging.Filter):
    """Passes the first line of each problem until it was not met for a while.

    oslo.messaging logs each attempt of each connection at a broker that is gone, and not always
    that a connection works again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()
        # When each problem was met last, in Unix time.
        self._met_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is of no problem, or of one that was not met lately."""
        if record.levelno < logging.WARNING:
            return True
        text = str(record.msg)
        # Several threads may meet the same problem at once.
        with self._lock:
            met_at = self._met_at.get(text, -math.inf)
            self._met_at[text] = record.created
        return record.created - met_at > SAME_PROBLEM

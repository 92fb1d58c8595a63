# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The agent on the message bus: it listens when there is a broker, and misses nothing without one.

Everything that may wait for a broker does so in threads of its own. Make one per process, after
any fork; see scheduler.rpc.host_client for the name under which the agent listens.
"""

import logging
from collections.abc import Sequence
from threading import Event, Lock, Thread

import oslo_messaging
from oslo_config import cfg
from oslo_log import log

from scheduler.rpc.host_client import TOPIC, greet, server_name
from scheduler.rpc.server import RpcServer
from scheduler.rpc.transport import UnusableTransport, rpc_transport

LOG = log.getLogger(__name__)
# So many operations at a time; the rest waits in the broker.
MOST_IN_FLIGHT = 16
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
# How long a stop waits for operations under way.
PATIENCE = 10.0
# It says at each attempt that a broker which was there is gone.
TALKATIVE = "oslo.messaging._drivers.impl_rabbit"


class Bus:
    """Serves endpoints, and has a transport for whoever else wants to send."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        endpoints: Sequence[object],
        first_pause: float = FIRST_PAUSE,
        patience: float = PATIENCE,
    ) -> None:
        self._conf = conf
        self._endpoints = endpoints
        self._first_pause = first_pause
        self._patience = patience
        self._lock = Lock()
        self._transport: oslo_messaging.Transport | None = None
        self._server: RpcServer | None = None
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="bus", daemon=True)
        self._repetitions = Repetitions()

    @property
    def transport(self) -> oslo_messaging.Transport:
        """The transport, made when it is first asked for, which connects nothing.

        Who sends while there is no broker waits for one, for ever unless retry=0 says otherwise.
        """
        with self._lock:
            if self._transport is None:
                self._transport = rpc_transport(self._conf)
            return self._transport

    def listening(self) -> bool:
        """Tell whether there was a broker: from then on it is looked for by oslo.messaging."""
        return self._server is not None

    def start(self) -> None:
        """Begin to listen, as soon as there is a broker; returns at once."""
        logging.getLogger(TALKATIVE).addFilter(self._repetitions)
        self._thread.start()

    def stop(self) -> None:
        """Answer what was taken and disconnect, but wait for neither for long."""
        self._stopped.set()
        leaving = Thread(target=self._leave, name="bus-stop", daemon=True)
        leaving.start()
        leaving.join(self._patience)
        if leaving.is_alive():
            LOG.warning("Leaving the message bus without a farewell: it has not answered")
        logging.getLogger(TALKATIVE).removeFilter(self._repetitions)

    def _run(self) -> None:
        pause, told = self._first_pause, set[str]()
        while problem := self._problem():
            if self._stopped.is_set():
                return
            if problem not in told:
                told.add(problem)
                LOG.warning(
                    "No operations over RPC, trying again in %g s and then less often: %s",
                    pause,
                    problem,
                )
            self._stopped.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        LOG.info("Listening as %s.%s", TOPIC, server_name(self._conf.host))

    def _problem(self) -> str:
        """Try to listen; return what kept it from that, nothing if it does."""
        try:
            # Where this fails, to listen would try again for ever, with an error for each time.
            greet(self._conf, self.transport)
            server = RpcServer(
                self.transport,
                TOPIC,
                server_name(self._conf.host),
                self._endpoints,
                MOST_IN_FLIGHT,
            )
            server.start()
        # It names the option itself.
        except UnusableTransport as error:
            return str(error)
        # Of oslo.messaging or any library below: nothing of it is the end of the agent.
        except Exception as error:
            return f"{_in_one_line(error)}; check [DEFAULT] transport_url"
        self._server = server
        return ""

    def _leave(self) -> None:
        if self._thread.ident:
            self._thread.join()
        if self._server is not None:
            self._server.drain()
        if self._transport is not None:
            self._transport.cleanup()


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or repr(error)


class Repetitions(logging.Filter):
    """Lets one line through for each thing that goes wrong, until it is well again."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether this has not been said since the last success."""
        if record.levelno < logging.INFO:
            return True
        text = str(record.msg)
        if "Reconnected" in text:
            self._seen.clear()
            return True
        known = text in self._seen
        self._seen.add(text)
        return not known

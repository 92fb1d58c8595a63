# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The floor: a server of a few lines, which answers what schedulers have answered before.

It takes from the broker as a scheduler does: the same backend, options, workers and threads.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

from conf.daemon import process
from scheduler import cmd

TOPIC = "echo"
# Names the file with the answers, by how many instances a call is about.
VARIABLE = "BERTHMASTER_ANSWERS"


def main() -> None:
    """Echo until told to stop."""
    process.begin(TOPIC, cmd._patch)
    from oslo_config import cfg

    process.configure(cfg.CONF, TOPIC, sys.argv[1:])
    answers = json.loads(Path(os.environ[VARIABLE]).read_text())
    service = EchoService(cfg.CONF, answers)
    sys.exit(process.serve(cfg.CONF, service, cfg.CONF.scheduler.workers, ()))


class Endpoint:
    """Answers every call at once."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    def select_destinations(self, _context: Any, instance_uuids: Any, **_arguments: Any) -> Any:
        """Return what a scheduler has answered to as many instances."""
        return self._answers[str(len(instance_uuids))]


class EchoService:
    """A process that echoes."""

    def __init__(self, conf: Any, answers: Mapping[str, Any]) -> None:
        self._conf, self._endpoint, self._stopped = conf, Endpoint(answers), Event()

    def start(self) -> None:
        """Connect and serve."""
        import oslo_messaging
        from oslo_log import log

        from scheduler.messaging.transport import rpc_transport

        target = oslo_messaging.Target(topic=TOPIC, server=self._conf.host, version="4.5")
        self._endpoint.target = oslo_messaging.Target(version="4.5")
        # As schedulers make it: the exchange is a default of ours.
        transport = rpc_transport(self._conf)
        self._server = oslo_messaging.get_rpc_server(transport, target, [self._endpoint])
        self._server.start()
        log.getLogger(__name__).info("Echo %s serves select_destinations", self._conf.host)

    def stop(self) -> None:
        """Leave."""
        self._stopped.set()

    def wait(self) -> None:
        """Return when it has stopped."""
        self._stopped.wait()

    def reset(self) -> None:
        """Do nothing."""


if __name__ == "__main__":
    main()

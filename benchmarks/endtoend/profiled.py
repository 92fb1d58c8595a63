# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A scheduler that writes down, twice a second, what it has spent in which stage of requests."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.endtoend.stages import Stages

VARIABLE = "BERTHMASTER_STAGES"
STAGES = Stages()
# Seconds from one writing to the next.
EVERY = 0.5


def main() -> None:
    """Run the scheduler; modules are watched once its backend is chosen."""
    from scheduler import cmd

    run = cmd._run

    def watched(backend: str) -> int:
        watch(STAGES)
        # The worker is forked later, and threads are not.
        os.register_at_fork(after_in_child=_begin_to_write)
        return run(backend)

    cmd._run = watched
    cmd.main()


def watch(stages: Stages) -> None:
    """Let what requests go through be stages."""
    _watch_messaging(stages)
    _watch_requests(stages)
    _watch_database(stages)


def _watch_messaging(stages: Stages) -> None:
    from oslo_messaging import _utils  # noqa: F401  # chooses its executors now
    from oslo_messaging._drivers import amqpdriver, impl_rabbit
    from oslo_messaging.rpc import server

    from scheduler.api import scheduler_endpoint, tracking_endpoint
    from scheduler.messaging import change_publisher
    from scheduler.messaging import server as ours

    stages.watch(amqpdriver.AMQPListener, "__call__", "broker: take a message, parse its JSON")
    stages.watch(impl_rabbit.Connection, "consume", "broker: read")
    stages.watch(amqpdriver.AMQPIncomingMessage, "reply", "broker: send the reply")
    stages.watch(server.RPCServer, "_process_incoming", "oslo.messaging: process")
    stages.watch(change_publisher.ChangePublisher, "send", "pushes: send")
    stages.watch(tracking_endpoint.PushEndpoint, "nodes_changed", "pushes: receive")
    stages.watch(scheduler_endpoint.SchedulerEndpoint, "select_destinations", "endpoint")
    handle = ours._handle_in_time

    def handling(handler: Any, incoming: Any, deadline: Any) -> None:
        stages.add("queue: wait for its turn", deadline.waited())
        handle(handler, incoming, deadline)

    ours._handle_in_time = handling


def _watch_requests(stages: Stages) -> None:
    import logging

    from inventory import engine
    from scheduler import request_trace
    from scheduler.api import scheduler_endpoint
    from scheduler.drivers import filter_scheduler
    from scheduler.host_cache import cache
    from scheduler.select_destinations import destinations, loop, pending_request
    from scheduler.wire import context

    stages.watch(scheduler_endpoint, "decode_select_arguments", "decode the arguments")
    stages.watch(scheduler_endpoint, "encode_destinations", "answer: encode")
    stages.watch(context.RequestContext, "for_logging", "decode the context")
    stages.watch(destinations, "build_request", "decide: the request")
    stages.watch(loop, "build_claim_request", "claim: the request")
    stages.watch(pending_request, "set_answers", "answer: as kept with the claim")
    stages.watch(loop.SchedulingLoop, "answer", "attempts")
    stages.watch(filter_scheduler.FilterScheduler, "decide", "decide")
    stages.watch(loop, "build_answer", "answer: selections")
    stages.watch(request_trace.RequestLog, "on_finished", "log: the decision's line")
    stages.watch(logging.Logger, "handle", "log: write")
    stages.watch(cache.HostCache, "refresh", "view: read changes")
    for name in ("begin_claim", "end_claim", "mark_stale", "consume", "reports", "apply_changes"):
        stages.watch(cache.HostCache, name, "view: what was taken")
    stages.watch(engine.Database, "write", "claim: transaction")
    stages.watch(loop.SchedulingLoop, "_claim_together", "claim")
    _watch_the_lock(stages, cache.HostCache)


def _watch_the_lock(stages: Stages, cache: Any) -> None:
    from contextlib import contextmanager

    locked = cache.locked

    @contextmanager
    def entering(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = locked(self, *args, **kwargs)
        with stages.stage("view: lock and bring up to date"):
            hosts = found.__enter__()
        try:
            yield hosts
        except BaseException as error:
            if not found.__exit__(type(error), error, error.__traceback__):
                raise
        else:
            found.__exit__(None, None, None)

    cache.locked = entering


def _watch_database(stages: Stages) -> None:
    import pymysql

    stages.watch(pymysql.connections.Connection, "query", "database: statements")
    stages.watch(pymysql.connections.Connection, "connect", "database: connect")


def _begin_to_write() -> None:
    threading.Thread(target=_write, args=(Path(os.environ[VARIABLE]),), daemon=True).start()


def _write(path: Path) -> None:
    temporary = path.with_suffix(".new")
    while True:
        written = {"processor": time.process_time(), "spent": STAGES.sums()}
        temporary.write_text(json.dumps(written))
        temporary.replace(path)
        time.sleep(EVERY)


if __name__ == "__main__":
    main()

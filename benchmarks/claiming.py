# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A scheduler that claims in the process of a benchmark, without a broker."""

import time

from oslo_config import cfg

from benchmarks.endtoend import calls
from conf import opts
from inventory.engine import Database
from inventory.objects.standby import EXTRA_SPEC
from scheduler.claims.claimer import Publish
from scheduler.select_destinations.destination_builder import build_destinations
from scheduler.wire.arguments import decode_select_arguments
from scheduler.wire.context import RequestContext


def configured() -> cfg.ConfigOpts:
    """Return the defaults of a scheduler for a fleet whose services send no heartbeats."""
    opts.set_defaults()
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project="berthmaster", default_config_files=[])
    conf.set_override("service_down_time", 36_000)
    return conf


class Scheduler:
    """It answers the calls of the end-to-end benchmark one after the other."""

    def __init__(self, database: Database, publish: Publish = lambda _: None) -> None:
        self._calls = calls.plain(1)
        self._claims = build_destinations(configured(), database, publish)

    def claim(self, mode: str | None = None) -> float:
        """Answer a request of a flavor with a mode of failover, as a rule none.

        Return the milliseconds of the processor.
        """
        call = next(self._calls)
        flavor = call["args"]["spec_obj"]["nova_object.data"]["flavor"]["nova_object.data"]
        flavor["extra_specs"] = {EXTRA_SPEC: mode} if mode else {}
        began = time.process_time()
        request = decode_select_arguments(call["args"])
        self._claims.select(request, RequestContext.from_dict(calls.context_of(call)))
        return 1000 * (time.process_time() - began)

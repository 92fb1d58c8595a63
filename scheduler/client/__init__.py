# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Clients of the scheduler, of the agents and of Nova's conductor.

What a caller in Python needs can be imported from here. Nothing of it loads oslo.messaging before
connect() has chosen the concurrency backend.
"""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from conf.daemon import process
from scheduler.client.backoff import RetryPolicy
from scheduler.client.conductor import BuildFailed, Conductor
from scheduler.objects.flavor_and_image import Flavor, ImageMeta
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Selection
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost, SchedulerFailure, ServiceUnavailable

if TYPE_CHECKING:
    from oslo_config import cfg

    from scheduler.client.agent_client import AgentClient
    from scheduler.client.scheduler_client import SchedulerClient

__all__ = [
    "BuildFailed",
    "Conductor",
    "Flavor",
    "ImageMeta",
    "NoValidHost",
    "RequestContext",
    "RequestSpec",
    "RetryPolicy",
    "SchedulerFailure",
    "Selection",
    "ServiceUnavailable",
    "connect",
    "connect_to_agents",
]


@contextmanager
def connect(*paths: str | Path) -> Iterator["SchedulerClient"]:
    """Yield a client of the schedulers, and close it afterwards.

    paths are configuration files and directories of these; without any those of the command
    berthmaster are read. A process reads one configuration at a time. Where eventlet is not in use
    yet, threads are used, and eventlet cannot be imported from then on. Raise ConfigError or
    UnusableTransport for a configuration that cannot be used.
    """
    conf = _configuration(paths)
    from scheduler.client.scheduler_client import SchedulerClient

    with closing(SchedulerClient(conf)) as client:
        yield client


@contextmanager
def connect_to_agents(*paths: str | Path) -> Iterator["AgentClient"]:
    """Yield a client of the agents, as connect() does of the schedulers."""
    conf = _configuration(paths)
    from scheduler.client.agent_client import AgentClient

    with closing(AgentClient(conf)) as client:
        yield client


def _configuration(paths: tuple[str | Path, ...]) -> "cfg.ConfigOpts":
    """Choose the concurrency backend, and read the files; return the options."""
    # Before oslo.messaging is imported, which would load eventlet where it is installed.
    if "eventlet" not in sys.modules:
        process.refuse_import("eventlet")
        process.prefer_backend("threading")
    from oslo_config import cfg

    from conf import loading

    arguments = [f"--config-{'dir' if Path(each).is_dir() else 'file'}={each}" for each in paths]
    # oslo.messaging works with this one only.
    loading.read(cfg.CONF, process.PACKAGE, arguments, "1")
    return cfg.CONF

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How soon a scheduler's view of the hosts shows a guest that somebody starts.

A private libvirtd, RabbitMQ and MariaDB, and the agent as a process whose audits are an hour
apart. The view is one of a scheduler that reads nothing: it has what the agent pushes. Measured is
from the return of libvirt's own call to the moment at which the view shows the guest.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from conf.daemon import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

import oslo_messaging  # noqa: E402
from oslo_config import cfg  # noqa: E402

from benchmarks import program  # noqa: E402
from benchmarks.figures import OURS, Figure  # noqa: E402
from conf import opts  # noqa: E402
from inventory import compute_nodes  # noqa: E402
from inventory.engine import Database  # noqa: E402
from scheduler.api.tracking_endpoint import PushEndpoint  # noqa: E402
from scheduler.host_cache.cache import HostCache  # noqa: E402
from scheduler.messaging.server import RpcServer  # noqa: E402
from scheduler.wire import push_messages  # noqa: E402
from tests.fixtures.daemons import guests  # noqa: E402
from tests.fixtures.daemons.libvirtd import Libvirtd  # noqa: E402
from tests.fixtures.daemons.mariadb import MariaDB  # noqa: E402
from tests.fixtures.daemons.process import Guard  # noqa: E402
from tests.fixtures.daemons.rabbitmq import RabbitMQ  # noqa: E402
from tests.fixtures.deployment import Deployment  # noqa: E402

BACKENDS = ("eventlet", "threading")
PATIENCE = 60.0
LIMIT_MS = 1000.0


@dataclass(frozen=True, slots=True)
class Daemons:
    """What runs all the time."""

    directory: Path
    broker: RabbitMQ
    server: MariaDB
    libvirtd: Libvirtd


def measure(asked: argparse.Namespace) -> list[Figure]:
    """Return how long it took for some guests, each started and ended."""
    backends, number = (("eventlet",), 2) if asked.quick else (BACKENDS, asked.guests)
    with _daemons() as daemons:
        return [each for name in backends for each in _known(daemons, name, number)]


def _known(daemons: Daemons, backend_name: str, number: int) -> list[Figure]:
    started, ended = [], []
    with _watched(daemons, backend_name) as (connection, instances):
        for each in range(number):
            uuid = str(uuid4())
            xml = guests.XML.format(name=f"guest-{each}", uuid=uuid, vcpus=1, memory_mib=64)
            guest = connection.createXML(xml)
            started.append(_until(lambda uuid=uuid: uuid in instances()))
            guest.destroy()
            ended.append(_until(lambda uuid=uuid: uuid not in instances()))
    case = {"agent": backend_name}
    return [
        Figure("guest started, known", OURS, "ms", started, case),
        Figure("guest ended, known", OURS, "ms", ended, case),
    ]


def _until(condition: Callable[[], bool]) -> float:
    """Return the milliseconds until a condition holds."""
    began = time.perf_counter()
    while not condition():
        if time.perf_counter() - began > PATIENCE:
            sys.exit("the view never showed it")
        time.sleep(0.001)
    return 1000 * (time.perf_counter() - began)


@contextmanager
def _daemons() -> Iterator[Daemons]:
    """Yield what agents of both backends have before them, one after the other."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="berthmaster-bench-")))
        broker = stack.enter_context(RabbitMQ(directory / "rabbitmq"))
        server = stack.enter_context(MariaDB(directory / "mariadb"))
        libvirtd = stack.enter_context(Libvirtd(directory / "libvirtd"))
        yield Daemons(directory, broker, server, libvirtd)


@contextmanager
def _watched(
    daemons: Daemons, backend_name: str
) -> Iterator[tuple["guests.libvirt.virConnect", Callable[[], set[str]]]]:
    """Yield a connection to start guests with, and a function to those that a view has."""
    with ExitStack() as stack:
        guard = stack.enter_context(Guard())
        directory = daemons.directory / backend_name
        directory.mkdir()
        uri, url = daemons.libvirtd.uri, daemons.broker.transport_url
        deployment = Deployment(directory, guard, url, daemons.server.create_database(backend_name))
        deployment.sync()
        database = deployment.open_database()
        stack.callback(database.close)
        deployment.agent(
            backend_name,
            {
                "DEFAULT": {"update_resources_interval": 3600},
                "libvirt": {"connection_uri": uri, "virt_type": "qemu"},
            },
            name="hypervisor",
        )
        _until(lambda: bool(database.read(compute_nodes.all_live)))
        cache = _cache(stack, database, url)
        yield stack.enter_context(guests.connected(uri)), lambda: _instances(cache)


def _cache(stack: ExitStack, database: Database, url: str) -> HostCache:
    """Return a view that has been read once, and takes what agents push."""
    cache = HostCache(database, max_age=3600, reload_interval=3600)
    cache.refresh()
    opts.set_defaults()
    cfg.CONF([], project="berthmaster")
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=url)
    pushes = RpcServer(transport, push_messages.TOPIC, "bench", [PushEndpoint(cache)], 1)
    pushes.start()
    stack.callback(transport.cleanup)
    stack.callback(pushes.drain)
    return cache


def _instances(cache: HostCache) -> set[str]:
    with cache.current() as hosts:
        return {uuid for row in hosts.rows() for uuid in hosts.instances.on(row)}


def report(found: Sequence[Figure]) -> str:
    """Return the figures as lines."""
    return "\n".join(
        f"{each.what:20}  agent on {each.case['agent']:9}  median {each.median:6.1f}"
        f"  worst {max(each.turns):6.1f} ms of {len(each.turns)} events"
        f"{'' if max(each.turns) <= LIMIT_MS else f'  above {LIMIT_MS:g}'}"
        for each in found
    )


def main() -> None:
    options = program.parser(__doc__)
    options.add_argument("--guests", type=int, default=7, metavar="N")
    program.run(options, measure, report)


if __name__ == "__main__":
    main()

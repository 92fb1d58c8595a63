# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that demonstrates an agent, a scheduler and a caller on this machine."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from oslo_config import cfg

from compute_agent import host_memory, identity
from compute_agent.service import AgentService
from compute_agent.virt import driver_loading
from compute_agent.virt.fake import FakeDriver
from conf import loading
from conf.daemon.systemd import Notifier
from inventory import compute_nodes, migrations
from inventory.engine import Database, open_database
from scheduler.analysis.explain import Extent
from scheduler.cli.base import BaseCommand, Table, print_report
from scheduler.cli.format_decision import format_explanation, selection_limits
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.hosts.table import HostTable
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Selection
from scheduler.select_destinations import Destinations
from scheduler.service import SchedulerService
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from scheduler.wire.to_json import json_value

SYSTEM = "qemu:///system"
TEST = "test:///default"
# Seconds.
LIBVIRT_TIMEOUT = 4.0
AUDIT_TIMEOUT = 120.0
MEMINFO = Path("/proc/meminfo")
INSTANCES = 3
MEMORY_MB = 512
# Two made-up hosts beside this machine, so that there is something to choose from.
NEIGHBOURS = {"hosts": 2, "vcpus": 8, "memory_mb": 8192, "local_gb": 100}
COLUMNS = {
    "host": "host",
    "hypervisor_type": "hypervisor",
    "vcpus_used": "vCPUs used",
    "vcpus_total": "vCPUs",
    "free_ram_mb": "memory MB free",
    "total_usable_ram_mb": "memory MB",
    "free_disk_mb": "disk MB free",
    "num_instances": "instances",
}
CALLER = RequestContext(is_admin=True)
Print = Callable[..., None]


class Demo(BaseCommand):
    """Place instances on this machine, in one process and without a broker or database server.

    The agent polls this machine's libvirt if one answers within seconds, else libvirt's own
    simulated host, and the real /proc/meminfo. No instance is started and no file is left behind.
    """

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument(
            "--connection-uri",
            help="URI of the libvirt to poll (default: this machine's, if it answers).",
        )

    def take_action(self, args: Any) -> int:
        with TemporaryDirectory(prefix="berthmaster-demo-") as directory:
            settings = _settings(args.connection_uri, self._print)
            _configure(self.conf, Path(directory), settings)
            memory = host_memory.host_memory(host_memory.parse_meminfo(MEMINFO.read_text()), 0)
            self._print(f"/proc/meminfo: {memory.total_mb} MB of memory, {memory.used_mb} MB used.")
            with _running(self.conf, self._print) as (scheduler, client):
                return _place(scheduler, client, self._print)

    def _print(self, *sections: str | Table) -> None:
        print_report(sections, self.app.stdout)
        self.app.stdout.flush()


def _settings(uri: str | None, show: Print) -> list[str]:
    """Return the lines of a configuration for the libvirt to poll, and show the reason."""
    if uri or _libvirt_answers():
        show(f"Polling {uri or SYSTEM}.")
        return ["[libvirt]", f"connection_uri = {uri or SYSTEM}"]
    show(f"No libvirt answers at {SYSTEM}; polling {TEST}, libvirt's own simulated host.")
    show("Its one guest is larger than the host itself, so memory is overcommitted fourfold.")
    return ["ram_allocation_ratio = 4.0", "[libvirt]", f"connection_uri = {TEST}"]


def _libvirt_answers() -> bool:
    """Return whether this machine's libvirt answers in time."""
    try:
        import libvirt
    except ImportError:
        raise RuntimeError(
            "libvirt-python is not installed: install berthmaster[libvirt], for which pkg-config,"
            " a C compiler and libvirt's headers (libvirt-dev) are needed"
        ) from None
    answered = threading.Event()

    def ask() -> None:
        with suppress(libvirt.libvirtError):
            libvirt.openReadOnly(SYSTEM).getHostname()
            answered.set()

    libvirt.registerErrorHandler(lambda *_: None, None)
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(LIBVIRT_TIMEOUT)
    return answered.is_set()


def _configure(conf: cfg.ConfigOpts, directory: Path, settings: list[str]) -> None:
    """Write a configuration as an operator would, and read it."""
    lines = [
        "[DEFAULT]",
        f"state_path = {directory}",
        "transport_url = kombu+memory:///",
        *settings,
        "[fake]",
        *(f"{name} = {value}" for name, value in NEIGHBOURS.items()),
    ]
    path = directory / "berthmaster.conf"
    path.write_text("\n".join(lines) + "\n")
    # The directory as well, in place of those of the user and of the system.
    arguments = [f"--config-file={path}", f"--config-dir={directory}"]
    loading.read(conf, "berthmaster", arguments, metadata.version("berthmaster"))


@contextmanager
def _running(
    conf: cfg.ConfigOpts, show: Print
) -> Iterator[tuple[SchedulerService, SchedulerClient]]:
    """Yield a scheduler that knows this machine, and a client of it."""
    with ExitStack() as stack:
        database = stack.enter_context(closing(open_database(conf)))
        migrations.sync(database)
        driver = driver_loading.load(conf)
        identity.establish(conf, database, driver)
        for each in (driver, FakeDriver(conf)):
            agent = AgentService(conf, each, Notifier({}))
            stack.callback(agent.stop)
            agent.start()
        _wait_for_audits(database, 1 + NEIGHBOURS["hosts"], show)
        scheduler = SchedulerService(conf, Notifier({}))
        stack.callback(scheduler.stop)
        scheduler.start()
        yield scheduler, stack.enter_context(closing(SchedulerClient(conf)))


def _wait_for_audits(database: Database, hosts: int, show: Print) -> None:
    show("Waiting for the first audits of the agents ...")
    deadline = time.monotonic() + AUDIT_TIMEOUT
    while len(database.read(compute_nodes.all_live)) < hosts:
        if time.monotonic() > deadline:
            raise RuntimeError(f"not all hosts have reported within {AUDIT_TIMEOUT:.0f} s")
        time.sleep(0.1)


def _place(scheduler: SchedulerService, client: SchedulerClient, show: Print) -> int:
    """Make a request that fits and one that cannot; return the exit status."""
    destinations = scheduler.destinations
    with destinations.host_cache.current() as hosts:
        show(_hosts("The hosts, as their agents report them", hosts))
        largest = int(hosts.total_usable_ram_mb.max())
    uuids = [str(uuid4()) for _ in range(INSTANCES)]
    fits = SelectArguments(_spec(MEMORY_MB, uuids), [*uuids])
    show(*_explained("A request", fits, destinations))
    answer = client.select_destinations(CALLER, fits.spec, uuids)
    show(_answer("The answer that the caller got over RPC", uuids, answer))
    with destinations.host_cache.current() as hosts:
        show(_hosts("The hosts, after these instances have consumed their resources", hosts))

    too_large = SelectArguments(_spec(2 * largest, uuids[:1]), [uuids[0]])
    show(*_explained("A request that cannot fit", too_large, destinations, near=3))
    try:
        client.select_destinations(CALLER, too_large.spec, uuids[:1])
    except NoValidHost as error:
        show(f"The caller gets: NoValidHost: {error}")
        return 0
    show("That request was placed, which is wrong.")
    return 1


def _spec(memory_mb: int, uuids: list[str]) -> RequestSpec:
    flavor = Flavor(name="demo", vcpus=1, memory_mb=memory_mb, root_gb=1)
    return RequestSpec(flavor=flavor, instance_uuid=uuids[0], num_instances=len(uuids))


def _hosts(title: str, hosts: HostTable) -> Table:
    rows = [[hosts.get(row, name) for name in COLUMNS] for row in sorted(hosts.rows())]
    return Table(title, list(COLUMNS.values()), rows)


def _explained(
    title: str, arguments: SelectArguments, destinations: Destinations, near: int = 0
) -> Iterator[Table]:
    """Yield a request, and what would be decided about it and why."""
    spec = arguments.spec
    row = (len(arguments.instance_uuids), spec.vcpus, spec.memory_mb, spec.root_gb)
    yield Table(title, ("instances", "vCPUs each", "memory MB each", "disk GB each"), [row])
    _, explanation = destinations.rehearse(arguments, CALLER, Extent(near=near))
    yield from format_explanation(json_value(explanation))


def _answer(title: str, uuids: Sequence[str], answer: Sequence[Sequence[Selection]]) -> Table:
    rows = []
    for uuid, (chosen, *_) in zip(uuids, answer, strict=True):
        limits = " ".join(f"{name}={limit:g}" for name, limit in selection_limits(chosen).items())
        rows.append((uuid, chosen.service_host, chosen.nodename, limits))
    return Table(title, ("instance", "host", "node", "limits"), rows)

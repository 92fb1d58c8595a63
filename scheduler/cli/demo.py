# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that shows the whole of it on this machine: agent, scheduler and caller."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from cliff.command import Command
from oslo_config import cfg

from compute_agent import host_memory, identity
from compute_agent.service import AgentService
from compute_agent.virt import loading as drivers
from compute_agent.virt.fake import FakeDriver
from conf import loading
from conf.systemd import Notifier
from inventory import compute_nodes, migrations
from inventory.engine import Database, open_database
from scheduler.cli import demo_report
from scheduler.cli.base import conf_of
from scheduler.decision.explaining import Extent
from scheduler.objects.flavor import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.rpc.client import SchedulerClient
from scheduler.rpc.codec import SelectArguments
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import NoValidHost
from scheduler.service import SchedulerService

SYSTEM = "qemu:///system"
TEST = "test:///default"
# A libvirt that has not said hello by then is not waited for.
HELLO = 4.0
FIRST_AUDIT = 120.0
MEMINFO = Path("/proc/meminfo")
INSTANCES = 3
MEMORY_MB = 512
# Two made-up hosts beside this machine, so that there is something to choose from.
NEIGHBOURS = {"hosts": 2, "vcpus": 8, "memory_mb": 8192, "local_gb": 100}


class Demo(Command):  # type: ignore[misc]  # cliff has no types
    """Place instances on this machine, in one process and without a broker or database server.

    The agent polls this machine's libvirt when one answers within seconds, libvirt's own imaginary
    host otherwise, and the real /proc/meminfo. Nothing is left behind and no instance is started.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--connection-uri", help="libvirt to poll instead of the one that would be chosen."
        )
        return parser

    def take_action(self, parsed_args: Any) -> int:
        report = demo_report.Report(self.app.stdout)
        conf = conf_of(self.app)
        with TemporaryDirectory(prefix="berthmaster-demo-") as directory:
            settings = _settings(parsed_args.connection_uri, report)
            _configure(conf, Path(directory), settings)
            memory = host_memory.host_memory(host_memory.parse_meminfo(MEMINFO.read_text()), 0)
            report.say(f"/proc/meminfo: {memory.total_mb} MB of memory, {memory.used_mb} MB used.")
            with _running(conf, report) as (scheduler, client):
                return _walk(scheduler, client, report)


def _settings(uri: str | None, report: demo_report.Report) -> dict[str, str]:
    """Return which driver to use and how, and say why."""
    hello = None if uri else _within(HELLO, _greet)
    if uri or hello:
        report.say(f"Polling {uri or SYSTEM}.")
        return {"uri": uri or SYSTEM}
    if hello is None:
        raise RuntimeError(
            "libvirt-python is not installed: install berthmaster[libvirt], for which pkg-config,"
            " a C compiler and libvirt's headers (libvirt-dev) are needed"
        )
    report.say(f"No libvirt answers at {SYSTEM}; polling {TEST}, libvirt's own imaginary host.")
    report.say("Its one guest is larger than it is itself, so memory is over-committed fourfold.")
    return {"uri": TEST, "ram_allocation_ratio": "4.0"}


def _greet() -> bool:
    import libvirt

    libvirt.registerErrorHandler(lambda *_: None, None)
    try:
        libvirt.openReadOnly(SYSTEM).getHostname()
    except libvirt.libvirtError:
        return False
    return True


def _within(seconds: float, question: Callable[[], bool]) -> bool | None:
    """Return the answer to a question, False after that time, None where it cannot be asked."""
    answers: list[bool | None] = []

    def ask() -> None:
        try:
            answers.append(question())
        except ImportError:
            answers.append(None)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else False


def _configure(conf: cfg.ConfigOpts, directory: Path, settings: dict[str, str]) -> None:
    """Write a configuration as an operator would, and read it."""
    uri = settings.pop("uri")
    lines = [
        "[DEFAULT]",
        f"state_path = {directory}",
        "transport_url = kombu+memory:///",
        *(f"{name} = {value}" for name, value in settings.items()),
        "[libvirt]",
        f"connection_uri = {uri}",
        "[fake]",
        *(f"{name} = {value}" for name, value in NEIGHBOURS.items()),
    ]
    path = directory / "berthmaster.conf"
    path.write_text("\n".join(lines) + "\n")
    loading.parse(conf, "berthmaster", [f"--config-file={path}"], metadata.version("berthmaster"))


@contextmanager
def _running(
    conf: cfg.ConfigOpts, report: demo_report.Report
) -> Iterator[tuple[SchedulerService, SchedulerClient]]:
    """Yield a scheduler that knows this machine, and a client that reaches it."""
    database = open_database(conf)
    migrations.sync(database)
    driver = drivers.load(conf)
    identity.establish(conf, database, driver)
    agents = [AgentService(conf, each, Notifier({})) for each in (driver, FakeDriver(conf))]
    scheduler = SchedulerService(conf, Notifier({}))
    client = None
    try:
        for agent in agents:
            agent.start()
        _await_audits(database, 1 + NEIGHBOURS["hosts"], report)
        scheduler.start()
        client = SchedulerClient(conf)
        yield scheduler, client
    finally:
        if client:
            client.close()
        scheduler.stop()
        for agent in agents:
            agent.stop()
        database.close()


def _await_audits(database: Database, hosts: int, report: demo_report.Report) -> None:
    began = time.monotonic()
    with report.progress("Waiting for the agents' first audits"):
        while len(database.read(compute_nodes.all_live)) < hosts:
            if time.monotonic() - began > FIRST_AUDIT:
                raise RuntimeError(f"not all hosts have reported within {FIRST_AUDIT:.0f} s")
            time.sleep(0.1)


def _walk(scheduler: SchedulerService, client: SchedulerClient, report: demo_report.Report) -> int:
    """Make a request that fits and one that cannot; return the exit status."""
    destinations, caller = scheduler.destinations, RequestContext(is_admin=True)
    with destinations.view.current() as hosts:
        report.hosts("The hosts, as their agents see them", hosts)
        largest = int(hosts.total_usable_ram_mb.max())
    uuids = [str(uuid4()) for _ in range(INSTANCES)]
    fits = SelectArguments(_spec(MEMORY_MB, uuids), [*uuids])
    report.request("A request", fits)
    _, explained = destinations.rehearse(fits, caller)
    report.explained(explained)
    answer = client.select_destinations(caller, fits.spec, uuids)
    report.answer("The answer that the caller got over RPC", uuids, answer)
    with destinations.view.current() as hosts:
        report.hosts("The hosts, after these instances were taken off them", hosts)

    too_much = SelectArguments(_spec(2 * largest, uuids[:1]), [uuids[0]])
    report.request("A request that cannot fit", too_much)
    _, explained = destinations.rehearse(too_much, caller, Extent(near=3))
    report.explained(explained)
    try:
        client.select_destinations(caller, too_much.spec, uuids[:1])
    except NoValidHost as error:
        report.say(f"The caller gets: NoValidHost: {error}")
        return 0
    report.say("That request was placed, which is wrong.")
    return 1


def _spec(memory_mb: int, uuids: list[str]) -> RequestSpec:
    flavor = Flavor(name="demo", vcpus=1, memory_mb=memory_mb, root_gb=1)
    return RequestSpec(flavor=flavor, instance_uuid=uuids[0], num_instances=len(uuids))

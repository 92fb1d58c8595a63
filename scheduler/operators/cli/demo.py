# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that demonstrates an agent, a scheduler and a caller on this machine."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from oslo_config import cfg

from compute_agent import identity
from compute_agent.service import AgentService
from compute_agent.virt import driver_loading
from compute_agent.virt.fake import FakeDriver
from conf import loading
from conf.daemon.systemd import Notifier
from inventory import compute_nodes, migrations
from inventory.engine import Database, open_database
from inventory.errors import counted
from scheduler.analysis.explain import Extent
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Selection
from scheduler.operators.cli.base import BaseCommand, Table, print_report
from scheduler.operators.cli.format_decision import format_weight, reasons_table
from scheduler.operators.cli.terminal import progress
from scheduler.select_destinations.destinations import Destinations
from scheduler.service import SchedulerService
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from scheduler.wire.to_json import json_value

SYSTEM = "qemu:///system"
# Seconds.
LIBVIRT_TIMEOUT = 4.0
AUDIT_TIMEOUT = 120.0
INSTANCES = 3
MEMORY_MB = 2048
# A host for libvirt to simulate: the guest of test:///default is larger than its host.
SIMULATED_HOST = """
<node>
  <cpu>
    <model>x86_64</model><active>16</active>
    <nodes>1</nodes><sockets>1</sockets><cores>8</cores><threads>2</threads>
  </cpu>
  <memory>33554432</memory>
  <domain type="test">
    <name>web</name><memory unit="GiB">4</memory><vcpu>2</vcpu><os><type>hvm</type></os>
  </domain>
  <domain type="test">
    <name>database</name><memory unit="GiB">8</memory><vcpu>4</vcpu><os><type>hvm</type></os>
  </domain>
</node>
"""
# Two made-up hosts beside that of libvirt, so that there is something to choose from.
NEIGHBOURS = {"hosts": 2, "vcpus": 16, "memory_mb": 16384, "local_gb": 200}
COLUMNS = ("Host", "Type", "vCPUs", "Memory MB", "Free", "Weight", "New", "Free after")
INTRODUCTION = """\
Berthmaster decides which host of a cloud runs each virtual machine. It takes
the place of nova-scheduler: same RPC calls, nova.conf, filters and weighers.
Many schedulers together book nothing twice. Each can explain its decisions.
Here run a scheduler, its callers, an agent for two made-up hosts, and one for"""
CONCLUSION = """
Go on with a larger cloud, your own hypervisor, or a check of your Nova cloud:"""
CALLERS = 8
COMMANDS = (
    "simulate --hosts 20:32,131072,1000 --flavors 2:8192:40",
    "demo --connection-uri qemu+ssh://root@HOST/system",
    "--config-file /etc/nova/nova.conf nova check",
)
CALLER = RequestContext(is_admin=True)


class Demo(BaseCommand):
    """Place instances on this machine, in one process and without a broker or database server.

    The agent polls the libvirt of this machine if it answers within seconds, else a host that
    libvirt simulates. No instance is started and no file is left behind.
    """

    def add_arguments(self, parser: Any) -> None:
        what = "URI of the libvirt to poll (default: this machine's, if it answers)."
        parser.add_argument("--connection-uri", help=what)

    def take_action(self, args: Any) -> int:
        self._print(*INTRODUCTION.split("\n"))
        with TemporaryDirectory(prefix="berthmaster-demo-") as name, ExitStack() as stack:
            directory = Path(name)
            uri = args.connection_uri or (SYSTEM if _libvirt_answers() else _simulated(directory))
            with progress(self.app, "waiting for the first reports of the agents"):
                _configure(self.conf, directory, uri)
                scheduler, client = _start(self.conf, stack)
            simulated = f"a host that libvirt simulates, since {SYSTEM} does not answer"
            self._print(f"{simulated if name in uri else uri}.")
            self._place(scheduler.destinations, client)
            self._contend(scheduler.destinations, client)
            self._refuse(scheduler.destinations, client)
        self._print(*CONCLUSION.split("\n"), *(f"  {sys.argv[0]} {words}" for words in COMMANDS))
        return 0

    def _place(self, destinations: Destinations, client: SchedulerClient) -> None:
        """Show the hosts, and how a request for some instances changes them."""
        request = _request(MEMORY_MB, INSTANCES)
        weights = {
            each["nodename"]: format_weight(each["weighed"]["total"])
            for each in _explanation(destinations, request)["verdicts"]
            if each["weighed"]
        }
        before = _hosts(destinations)
        new = Counter(chosen.nodename for chosen, *_ in _select(client, request))
        what = f"{counted(INSTANCES, 'instance')} of {MEMORY_MB} MB"
        title = f"1. A caller asks for {what}; highest weight wins:"
        rows = [
            (*before[name], weights.get(name, ""), new[name], after[-1])
            for name, after in _hosts(destinations).items()
        ]
        self._print(Table(title, COLUMNS, rows))

    def _contend(self, destinations: Destinations, client: SchedulerClient) -> None:
        """Show that callers who ask at once get no more than there is."""
        memory_mb = max(_free(destinations)) // 2

        def ask(_: int) -> bool:
            with suppress(NoValidHost):
                return bool(_select(client, _request(memory_mb, 1)))
            return False

        with ThreadPoolExecutor(CALLERS) as callers:
            placed = sum(callers.map(ask, range(CALLERS)))
        free = ", ".join(f"{each} MB" for each in _free(destinations))
        self._print(
            "",
            f"2. {CALLERS} callers ask at once for {memory_mb} MB each, more than there is:",
            f"{placed} get a host, {CALLERS - placed} are refused. Free afterwards: {free}.",
        )

    def _refuse(self, destinations: Destinations, client: SchedulerClient) -> None:
        """Show how a request that cannot fit is refused, and why."""
        memory_mb = 2 * max(memory_mb for *_, memory_mb, _ in _hosts(destinations).values())
        request = _request(memory_mb, 1)
        try:
            _select(client, request)
        except NoValidHost as error:
            answer = str(error)
        else:
            raise RuntimeError(f"an instance with {memory_mb} MB was placed, where none fits")
        explanation = _explanation(destinations, request)
        reasons = reasons_table(explanation).rows
        near = (f"It would fit with {each['text']}." for each in explanation["near_misses"])
        self._print(
            "",
            f"3. For {memory_mb} MB: {answer}",
            *(f"  {host}: {name}, {reason}" for host, name, reason in reasons),
            *near,
        )

    def _print(self, *sections: str | Table) -> None:
        print_report(sections, self.app.stdout)
        self.app.stdout.flush()


def _simulated(directory: Path) -> str:
    path = directory / "host.xml"
    path.write_text(SIMULATED_HOST)
    return f"test://{path}"


def _libvirt_answers() -> bool:
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


def _configure(conf: cfg.ConfigOpts, directory: Path, uri: str) -> None:
    """Write a configuration as an operator would, and read it."""
    lines = [
        "[DEFAULT]",
        f"state_path = {directory}",
        "transport_url = kombu+memory:///",
        "[libvirt]",
        f"connection_uri = {uri}",
        "[fake]",
        *(f"{name} = {value}" for name, value in NEIGHBOURS.items()),
    ]
    path = directory / "berthmaster.conf"
    path.write_text("\n".join(lines) + "\n")
    # The directory as well, in place of those of the user and of the system.
    arguments = [f"--config-file={path}", f"--config-dir={directory}"]
    loading.read(conf, "berthmaster", arguments, metadata.version("berthmaster"))


def _start(conf: cfg.ConfigOpts, stack: ExitStack) -> tuple[SchedulerService, SchedulerClient]:
    """Return a scheduler that knows this machine, and a client of it; stack stops them."""
    database = stack.enter_context(closing(open_database(conf)))
    migrations.sync(database)
    driver = driver_loading.load(conf)
    identity.establish(conf, database, driver)
    for each in (driver, FakeDriver(conf)):
        agent = AgentService(conf, each, Notifier({}))
        stack.callback(agent.stop)
        agent.start()
    _wait_for_audits(database, 1 + NEIGHBOURS["hosts"])
    scheduler = SchedulerService(conf, Notifier({}))
    stack.callback(scheduler.stop)
    scheduler.start()
    return scheduler, stack.enter_context(closing(SchedulerClient(conf)))


def _wait_for_audits(database: Database, hosts: int) -> None:
    deadline = time.monotonic() + AUDIT_TIMEOUT
    while len(database.read(compute_nodes.all_live)) < hosts:
        if time.monotonic() > deadline:
            raise RuntimeError(f"not all hosts have reported within {AUDIT_TIMEOUT:.0f} s")
        time.sleep(0.1)


def _request(memory_mb: int, instances: int) -> SelectArguments:
    uuids = [str(uuid4()) for _ in range(instances)]
    flavor = Flavor(name="demo", vcpus=1, memory_mb=memory_mb, root_gb=1)
    spec = RequestSpec(flavor=flavor, instance_uuid=uuids[0], num_instances=instances)
    return SelectArguments(spec, [*uuids])


def _select(client: SchedulerClient, request: SelectArguments) -> Sequence[Sequence[Selection]]:
    uuids = [uuid for uuid in request.instance_uuids if uuid]
    return client.select_destinations(CALLER, request.spec, uuids)


def _explanation(destinations: Destinations, request: SelectArguments) -> Any:
    return json_value(destinations.rehearse(request, CALLER, Extent(near=1))[1])


def _free(destinations: Destinations) -> list[int]:
    """Return the free memory of each host, in MB."""
    return [free for *_, free in _hosts(destinations).values()]


def _hosts(destinations: Destinations) -> dict[str, tuple[Any, ...]]:
    """Return name, type, vCPUs, memory and free memory of all nodes, by their names."""
    names = ("host", "hypervisor_type", "vcpus_total", "total_usable_ram_mb", "free_ram_mb")
    with destinations.host_cache.current() as hosts:
        return {
            hosts.get(row, "nodename"): tuple(hosts.get(row, name) for name in names)
            for row in sorted(hosts.rows())
        }

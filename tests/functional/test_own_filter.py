# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A user's first filter, the one of the plug-in author's guide, installed from outside the tree."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from scheduler.wire.context import RequestContext
from tests.backends import backends_alike
from tests.builders import a_request
from tests.fixtures.daemons.ports import free_ports
from tests.fixtures.daemons.process import PATIENCE, Guard, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet
from tests.fixtures.shown_fleet import ShownFleet, host_names
from tests.fixtures.status_page import StatusPage

EXAMPLE = Path(__file__).parents[2] / "doc" / "source" / "plugins" / "example"


ENDLESS = """
from scheduler.filters import BaseHostFilter


class Endless(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        while True:
            pass
"""


def test_a_filter_without_an_end_keeps_no_other_page_from_anybody(
    tmp_path: Path, rabbitmq: RabbitMQ
) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    page = StatusPage(free_ports(1)[0])
    options = {
        "status": {**page.options["status"], "pages": "true"},
        "filter_scheduler": {"enabled_filters": "endless.Endless"},
    }
    with closing(ShownFleet(tmp_path)) as fleet, ThreadPoolExecutor(3) as others, Guard() as guard:
        fleet.add_hosts(host_names(3))
        deployment = Deployment(tmp_path, guard, rabbitmq.transport_url, fleet.url)
        scheduler = deployment.scheduler("eventlet", options, {"PYTHONPATH": str(tmp_path)})
        assert wait_until(lambda: page.get("/services/")[0] == 200)
        looks = [others.submit(page.get, "/capacity/?flavor=1,512,1") for _ in range(3)]
        assert page.get("/services/")[0] == 200
        assert not any(each.done() for each in looks)
        assert page.get("/favicon.ico")[0] == 200
        assert [each.result()[0] for each in looks] == [503] * 3
        assert page.get("/services/")[0] == 200
        log = scheduler.log.read_text()
        assert log.count("is killed, since it had not finished the page /capacity/") == 1


def _installed_package(directory: Path) -> None:
    """Install the example as a package, with its entry point."""
    source = shutil.copytree(EXAMPLE, directory / "source")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--target", str(directory / "path"), str(source)]
    subprocess.run(command, check=True, timeout=PATIENCE)


def _single_file(directory: Path) -> None:
    """Put nothing but the file itself where Python finds it."""
    (directory / "path").mkdir()
    shutil.copy(EXAMPLE / "dump_filter.py", directory / "path")


@backends_alike
@pytest.mark.parametrize(
    ("install", "name"),
    [(_installed_package, "DumpFilter"), (_single_file, "dump_filter.DumpFilter")],
    ids=["entry point", "dotted path"],
)
def test_it_logs_every_attribute_of_every_host_and_lets_all_pass(
    deployment: Deployment,
    database: Database,
    client: SchedulerClient,
    tmp_path: Path,
    install: Callable[[Path], None],
    name: str,
    backend: str,
) -> None:
    a_fleet(database, ["compute1", "compute2"])
    (tmp_path / "plugin").mkdir()
    install(tmp_path / "plugin")
    scheduler = deployment.scheduler(
        backend,
        {"filter_scheduler": {"enabled_filters": f"{name},ComputeFilter"}},
        {"PYTHONPATH": str(tmp_path / "plugin" / "path")},
    )
    spec = a_request(vcpus=3, memory_mb=321)
    selections = client.select_destinations(RequestContext(), spec, ["a", "b"])
    assert {chosen.service_host for (chosen,) in selections} == {"compute1", "compute2"}
    log = scheduler.log.read_text()
    assert "vcpus=3, memory_mb=321" in log
    for host in ("compute1", "compute2"):
        line = next(line for line in log.splitlines() if f"Host {host}: " in line)
        assert "total_usable_ram_mb=65536" in line
        assert "supported_instances=[['x86_64', 'kvm', 'hvm']" in line
    assert "DumpFilter 2->2" in log

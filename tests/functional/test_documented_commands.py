# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Every command line of the documentation is run, page by page, as a reader would."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fixtures import documented, stand_ins, ways
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.ports import free_ports
from tests.fixtures.daemons.process import Guard
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment
from tests.fixtures.documented import Step
from tests.fixtures.own_servers import OwnServers, opened
from tests.fixtures.stage import Done, Stage

# A page takes some seconds, and there are many.
pytestmark = pytest.mark.matrix

STEPS = {page: documented.steps(page) for page in documented.pages()}
PROGRAMS = {
    page: {each for step in steps for each in step.programs} for page, steps in STEPS.items()
}
# A page that makes accounts has other servers than the rest.
OF_SERVERS = frozenset({"rabbitmqctl", "mariadb"})
# What a page has that says nothing of what is there before, and starts nothing.
USUALLY = ("hosts hypervisor1 hypervisor2 hypervisor3", "scheduler")
STARTING = ways.DAEMONS | {"systemctl"}
# What a page shows of the moment in which it was written.
_OF_THE_MOMENT = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,}|\d{4}-\d\d-\d\d[T ][\d:.]+Z?|\d+(?:\.\d+)?"
)
# Of JSON.
_KEY = re.compile(r'"(\w+)":')


class Served(NamedTuple):
    """The servers that a page works on, and a deployment there."""

    broker: RabbitMQ
    server: MariaDB
    deployment: Deployment


@pytest.fixture(params=documented.pages_with_commands())
def page(request: pytest.FixtureRequest) -> str:
    """Each page that has commands, in turn."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def own_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServers]:
    """The broker and the database server of the pages that make accounts."""
    with opened(tmp_path_factory.mktemp("own")) as found:
        yield found


@pytest.fixture(scope="module")
def opt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is installed below /opt, for all pages: they tell to install the same."""
    return tmp_path_factory.mktemp("opt")


@pytest.fixture
def served(
    page: str,
    rabbitmq: RabbitMQ,
    mariadb: MariaDB,
    deployment: Deployment,
    request: pytest.FixtureRequest,
) -> Iterator[Served]:
    """The broker and the database server that the page works on, and a deployment there."""
    if not PROGRAMS[page] & OF_SERVERS:
        yield Served(rabbitmq, mariadb, deployment)
        return
    own: OwnServers = request.getfixturevalue("own_servers")
    with own.of_a_page() as url, Guard() as guard:
        there = Deployment(deployment.directory, guard, own.broker.transport_url, url)
        yield Served(own.broker, own.server, there)


@pytest.fixture
def stage(
    page: str, served: Served, opt: Path, warm_command: Path, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """What stands ready for the reader of a page."""
    (status,) = free_ports(1)
    ports = {5672: served.broker.port, 3306: served.server.port, 9399: status}
    with Guard() as guard:
        found = Stage(served.deployment.directory, guard, served.deployment, ports)
        (found.root / "opt").rmdir()
        (found.root / "opt").symlink_to(opt)
        found.program("berthmaster", warm_command.read_text())
        stand_ins.put(found, served.broker, served.server)
        if any("LIBVIRT_URI" in step.text for step in STEPS[page]):
            found.placeholders["LIBVIRT_URI"] = request.getfixturevalue("libvirtd").uri
        if not PROGRAMS[page] & STARTING and not any(each.kind == "given" for each in STEPS[page]):
            for each in USUALLY:
                ways.given(found, each)
        yield found


def test_every_command_of_a_page_does_what_the_page_says(page: str, stage: Stage) -> None:
    wrong = []
    for step in STEPS[page]:
        try:
            _follow(stage, step)
        except Exception as error:
            wrong.append(f"{step.place}: {step.text}\n    {type(error).__name__}: {error}")
    assert not (wrong + stage.complaints()), "\n".join([*wrong, *stage.complaints()])


def _follow(stage: Stage, step: Step) -> None:
    _make_files(stage, step)
    if step.kind == "given":
        ways.given(stage, step.text)
    elif step.kind == "ini" and step.name:
        stage.configure(step.name, step.text)
    elif step.kind == "command":
        _perform(stage, step)


def _make_files(stage: Stage, step: Step) -> None:
    """Write the configuration that a command names before the page shows it."""
    for name in re.findall(r"--config-file[ =](\S+)", step.text):
        later = [each for each in STEPS[step.page] if (each.kind, each.name) == ("ini", name)]
        if later and not stage.path(name).exists():
            stage.configure(name, later[0].text)


def _perform(stage: Stage, step: Step) -> None:
    first = step.programs[0] if step.programs else ""
    assert ways.CLAIMED.issuperset(step.programs), f"no way to try one of {step.programs}"
    if first in ("", "export", "source", "umask"):
        stage.assign(step.text)
    elif first in ways.DAEMONS:
        stage.start(step.text)
    elif first in ways.LOOKED_AT:
        ways.looked_at(stage, first, step.text)
    else:
        _compare(stage.run(step.text), step.output)


def _compare(done: Done, shown: Sequence[str]) -> None:
    """Refuse an end that the page does not imply: what it shows as an error has to be that one."""
    if done.status:
        assert shown, f"status {done.status}: {done.stderr}"
        assert _words("\n".join(shown)) == _words(done.stderr + done.stdout)
    elif shown:
        assert _is_table(shown) == _is_table(done.stdout.splitlines()), done
        assert _names(shown) <= _names(done.stdout.splitlines()), done.stdout
        assert set(_KEY.findall("\n".join(shown))) <= set(_KEY.findall(done.stdout)), done.stdout


def _words(text: str) -> list[str]:
    return _OF_THE_MOMENT.sub("N", text).split()


def _is_table(lines: Sequence[str]) -> bool:
    return any(line.startswith("+--") for line in lines)


def _names(lines: Sequence[str]) -> set[str]:
    """Return the columns of a table; of one that shows the fields of one thing, these as well."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    if not rows:
        return set()
    fields = [row[0] for row in rows] if rows[0] == ["Field", "Value"] else []
    return {*rows[0], *fields}

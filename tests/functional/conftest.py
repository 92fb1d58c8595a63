# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Deployments on the real broker and database, and a client that calls them."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import kombu
import oslo_messaging
import pytest
from oslo_config import cfg

from inventory.engine import Database
from scheduler.client.scheduler_client import SchedulerClient
from tests.fixtures import availability, warm
from tests.fixtures.browser import Browser, a_browser
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Guard
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment
from tests.fixtures.nova_client import NovaClient
from tests.fixtures.nova_cloud import CAPS, NovaCloud, open_cloud
from tests.fixtures.placement import Placement
from tests.fixtures.served_nova import Backends

_DATABASES = count(1)


@pytest.fixture(scope="session")
def schema(rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database with empty tables, made as an operator makes them, to be copied."""
    url = mariadb.create_database("schema")
    with Guard() as guard:
        directory = tmp_path_factory.mktemp("schema")
        Deployment(directory, guard, rabbitmq.transport_url, url).sync()
    return "schema"


@pytest.fixture(scope="session")
def warm_command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The program berthmaster, which does not begin with imports each time."""
    directory = tmp_path_factory.mktemp("command")
    with Guard() as guard:
        path = directory / "berthmaster"
        path.write_text(warm.start(guard, directory))
        path.chmod(0o755)
        yield path


@pytest.fixture
def deployment(
    rabbitmq: RabbitMQ, mariadb: MariaDB, schema: str, warm_command: Path, tmp_path: Path
) -> Iterator[Deployment]:
    """A deployment with empty tables; what the last one left in the queues is gone."""
    _drop_requests(rabbitmq)
    url = mariadb.copy_database(schema, f"deployment{next(_DATABASES)}")
    with Guard() as guard:
        found = Deployment(tmp_path, guard, rabbitmq.transport_url, url)
        found.command = warm_command
        yield found


@pytest.fixture
def database(deployment: Deployment) -> Iterator[Database]:
    """The deployment's database, opened in the test's own process."""
    opened = deployment.open_database()
    yield opened
    opened.close()


@pytest.fixture
def client(rabbitmq: RabbitMQ) -> Iterator[SchedulerClient]:
    """A caller, on the process-wide configuration that oslo.messaging insists on."""
    oslo_messaging.set_transport_defaults("nova")
    cfg.CONF([], project="berthmaster")
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=rabbitmq.transport_url)
    found = SchedulerClient(cfg.CONF, transport)
    yield found
    found.close()
    cfg.CONF.reset()


@pytest.fixture(scope="session")
def nova_installed() -> None:
    """Nova in its own environment; without it no daemon is started in vain."""
    availability.require(availability.NOVA)


@pytest.fixture(scope="module")
def placement(
    nova_installed: None, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Placement]:
    """Placement alone, for the tests of one file."""
    directory = tmp_path_factory.mktemp("placement")
    with Placement(directory, mariadb.create_database(directory.name)) as found:
        yield found


@pytest.fixture(scope="module")
def backends(
    nova_installed: None,
    rabbitmq: RabbitMQ,
    mariadb: MariaDB,
    schema: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Backends:
    """What a whole Nova uses, for the tests of one file."""
    directory = tmp_path_factory.mktemp("cloud")
    return Backends(rabbitmq, mariadb, mariadb.copy_database(schema, directory.name), directory)


@pytest.fixture(scope="module")
def served_nova_cloud(
    nova_installed: None,
    rabbitmq: RabbitMQ,
    mariadb: MariaDB,
    schema: str,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[NovaCloud]:
    """A cloud for clients of Nova, with the zones that the module names in NOVA_ZONES."""
    _drop_requests(rabbitmq)
    directory, zones = tmp_path_factory.mktemp("nova"), request.module.NOVA_ZONES
    url = mariadb.copy_database(schema, directory.name)
    with open_cloud(rabbitmq.transport_url, url, directory, zones) as found:
        yield found


@pytest.fixture
def nova_cloud(served_nova_cloud: NovaCloud) -> Iterator[NovaCloud]:
    """The cloud of a module; after each test there is what it placed, and nothing else."""
    accounts = served_nova_cloud.accounts
    accounts.open()
    yield served_nova_cloud
    assert accounts.claimed == accounts.placed
    assert accounts.miscounted() == []
    assert served_nova_cloud.leaked() == []
    # A client that cannot read an answer would ask it.
    assert served_nova_cloud.conductor.heard() == []


@pytest.fixture(params=CAPS, ids=lambda cap: cap or "newest")
def nova(nova_cloud: NovaCloud, request: pytest.FixtureRequest) -> NovaClient:
    """Nova's client, under every cap in turn."""
    return nova_cloud.clients[request.param]


@pytest.fixture
def newest_nova(nova_cloud: NovaCloud) -> NovaClient:
    """Nova's client without a cap."""
    return nova_cloud.clients[""]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for all pages."""
    availability.require(availability.CHROMIUM)
    with a_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def _drop_requests(rabbitmq: RabbitMQ) -> None:
    """Forget the requests that no scheduler has taken; whoever sent them is gone."""
    with kombu.Connection(rabbitmq.transport_url.replace("rabbit://", "amqp://")) as connection:
        connection.channel().queue_delete("scheduler")

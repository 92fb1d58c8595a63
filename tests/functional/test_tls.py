# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""TLS to the database as the guide asks for it. That to the broker: test_messaging_mistakes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from inventory import compute_nodes, migrations
from inventory.database_errors import DatabaseUnavailable
from tests.databases import open_at
from tests.fixtures.authority import Authority, an_authority
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Guard, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment

pytestmark = pytest.mark.matrix
CIPHER = sa.text("SHOW STATUS LIKE 'Ssl_cipher'")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return an_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    """A server that talks to nobody without TLS."""
    options = [
        f"--ssl-ca={authority.ca_file}",
        f"--ssl-cert={authority.certificate}",
        f"--ssl-key={authority.key}",
        "--require-secure-transport=ON",
    ]
    with MariaDB(tmp_path_factory.mktemp("tls"), options) as found:
        yield found


@pytest.fixture(scope="module")
def url(server: MariaDB) -> str:
    return server.create_database("secured")


def cipher(url: str) -> str:
    """Return by what a connection is protected, nothing where it is not."""
    database = open_at(url)
    try:
        return str(database.read(lambda connection: connection.execute(CIPHER).one()[1]))
    finally:
        database.close()


def test_the_server_is_known_by_its_certificate(url: str, authority: Authority) -> None:
    assert cipher(f"{url}&ssl_ca={authority.ca_file}").startswith("TLS_")


def test_without_an_authority_it_is_encrypted_and_not_looked_at(url: str) -> None:
    assert cipher(url).startswith("TLS_")


def test_a_server_that_another_authority_has_signed_is_refused(url: str, tmp_path: Path) -> None:
    stranger = an_authority(tmp_path)
    with pytest.raises(DatabaseUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        open_at(f"{url}&ssl_ca={stranger.ca_file}")


def test_a_server_of_another_name_is_refused(url: str, authority: Authority) -> None:
    elsewhere = url.replace("127.0.0.1", "localhost")
    with pytest.raises(DatabaseUnavailable, match="Hostname mismatch"):
        open_at(f"{elsewhere}&ssl_ca={authority.ca_file}")
    assert cipher(f"{elsewhere}&ssl_ca={authority.ca_file}&ssl_check_hostname=false")


def test_both_daemons_work_on_such_a_database(
    rabbitmq: RabbitMQ, url: str, authority: Authority, tmp_path: Path
) -> None:
    secured = f"{url}&ssl_ca={authority.ca_file}"
    database = open_at(secured)
    migrations.sync(database)
    with Guard() as guard:
        deployment = Deployment(tmp_path, guard, rabbitmq.transport_url, secured)
        deployment.scheduler("eventlet")
        deployment.agent("threading", {"DEFAULT": {"compute_driver": "fake"}})
        assert wait_until(lambda: database.read(compute_nodes.all_live))
    database.close()

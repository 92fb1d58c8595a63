# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One whole Nova cloud for all tests here, since seven programs of Nova begin for it."""

from collections.abc import Iterator

import pytest

from inventory import tables
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.served_nova import Backends
from tests.fixtures.switched_nova import SwitchedNova, open_switched_nova


@pytest.fixture(scope="package")
def switched(
    nova_installed: None,
    rabbitmq: RabbitMQ,
    mariadb: MariaDB,
    schema: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SwitchedNova]:
    """A cloud with our agent, and the scheduler that the test before has left."""
    directory = tmp_path_factory.mktemp("cloud")
    url = mariadb.copy_database(schema, directory.name)
    with open_switched_nova(Backends(rabbitmq, mariadb, url, directory)) as found:
        yield found


@pytest.fixture(autouse=True)
def emptied(switched: SwitchedNova) -> Iterator[None]:
    """All agree and no server is there when a test is over."""
    yield
    try:
        switched.assert_agreement()
    finally:
        switched.delete_all()
    switched.assert_agreement()
    assert wait_until(lambda: not switched.cloud.rows(tables.instances))
    assert all(not found for found in switched.placement.records().allocations.values())


@pytest.fixture
def ours(switched: SwitchedNova) -> SwitchedNova:
    """The cloud with our scheduler."""
    switched.serve_by("ours")
    return switched

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A nova.conf with every option of a release is read as it is, beside a file for what differs."""

from collections.abc import Callable

import pytest

from inventory.engine import Database
from tests.fixtures import nova_samples
from tests.fixtures.deployment import Deployment, a_fleet, wait_for_log

pytestmark = pytest.mark.matrix


@pytest.mark.parametrize("sample", [nova_samples.of_15, nova_samples.of_34])
def test_all_programs_start_with_every_option_of_a_release(
    deployment: Deployment, database: Database, sample: Callable[[], str]
) -> None:
    text = sample()
    assert len(text.splitlines()) > 700
    nova = deployment.directory / "nova.conf"
    nova.write_text(text)
    deployment.arguments = [f"--config-file={nova}"]
    deployment.sync()
    a_fleet(database, ["compute7"])
    # What file and environment leave open is what the sample says.
    deployment.scheduler("")
    agent = deployment.agent("", {"DEFAULT": {"compute_driver": "fake"}})
    wait_for_log(agent, "Listening as compute")
    assert deployment.cli_json("select")
    assert "compute7" in {each["Host"] for each in deployment.cli_json("host", "list")}

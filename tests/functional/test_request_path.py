# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The first page of the contributor's guide: its path of a request is that of a traced request."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import guides
from tests.fixtures.daemons.process import PATIENCE
from tests.fixtures.daemons.rabbitmq import RabbitMQ

ROOT = Path(__file__).parents[2]
PLUGINS = ("scheduler/filters", "scheduler/weighers", "scheduler/drivers")
MAX_ROOMS = 73


@pytest.fixture(scope="module")
def traced(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the files on the way to the answer, in the order of first calls, "", and others."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fixtures.traced_request"]
    ended = subprocess.run(
        [*command, str(tmp_path_factory.mktemp("traced")), rabbitmq.transport_url],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.fixture(scope="module")
def steps() -> list[list[str]]:
    """Return the files that each step of the page names."""
    page = guides.page("contributor/index")
    path = page.split("The path of a request")[1].split("Where a rule is")[0]
    texts = re.split(r"^\d+\. ", path, flags=re.MULTILINE)[1:]
    return [re.findall(r"``(scheduler/[\w/.]+|inventory/[\w/.]+)``", text) for text in texts]


def test_there_are_at_most_twelve_steps_and_each_names_a_file(steps: list[list[str]]) -> None:
    assert 0 < len(steps) <= 12
    assert all(steps)


def test_a_request_passes_through_every_file_that_is_named(
    steps: list[list[str]], traced: list[str]
) -> None:
    named = [each for files in steps for each in files]
    missing = [each for each in named if not any(file.startswith(each) for file in traced)]
    assert missing == []


def test_the_steps_come_in_the_order_of_the_page(steps: list[list[str]], traced: list[str]) -> None:
    first = [traced.index(files[0]) for files in steps]
    assert first == sorted(first)


def test_no_file_on_the_way_is_in_a_folder_that_the_page_does_not_name(traced: list[str]) -> None:
    page = guides.page("contributor/index")
    picture = page.split("The path of a request")[0]
    on_the_way = traced[: traced.index("")]
    folders = {file.split("/")[1] for file in on_the_way if file.count("/") > 1}
    assert [name for name in folders if f"{name}/" not in picture and f"{name}``" not in page] == []


def test_a_request_passes_through_few_files_besides_plug_ins(traced: list[str]) -> None:
    on_the_way = traced[: traced.index("")]
    rooms = [file for file in on_the_way if not file.startswith(PLUGINS)]
    assert len(rooms) <= MAX_ROOMS, rooms

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a Nova cloud is ready, asked with the command that operators ask with."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.command import Command
from tests.nova_tables import NovaCloud, ago


class Cloud:
    """A cloud of two cells, the configuration that names it, and the command."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.nova = NovaCloud(directory, ["h1", "h2"], ["h3"])
        self.one, self.two = self.nova.cells
        self.configure()

    def configure(self, more: str = "") -> None:
        text = f"[api_database]\nconnection = {self.nova.api.url}\n{more}"
        (self.directory / "conf").write_text(text)

    def check(self) -> tuple[int, dict[str, Any]]:
        """Return the exit status and what is printed for programs."""
        done = Command(self.directory / "conf").run("nova", "check", "-f", "json")
        return done.status, json.loads(done.stdout)

    def problems(self) -> dict[str, str]:
        """Return by the subject what is wrong, besides accounts and Placement, which lack here."""
        _, found = self.check()
        return {
            each["subject"]: f"{each['state']}: {each['text']} -> {each['cure']}"
            for each in found["findings"]
            if each["state"] != "ok"
            and "may write" not in each["text"]
            and each["subject"] != "Placement"
        }


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    made = Cloud(tmp_path)
    yield made
    made.nova.close()


def test_a_cloud_in_order_is_ready(cloud: Cloud) -> None:
    status, found = cloud.check()
    assert (status, found["ready"], cloud.problems()) == (0, True, {})
    texts = {each["subject"]: each["text"] for each in found["findings"] if each["state"] == "ok"}
    assert texts["API database"] == "2 cells, 3 hosts mapped"
    assert texts["cell cell1"] == "2 compute services, 2 nodes"
    assert texts["host mappings"] == "3 hosts, all in order"


def test_each_line_says_what_to_do(cloud: Cloud) -> None:
    cloud.nova.api.change("host_mappings", {"host": "h2"}, host="other")
    done = Command(cloud.directory / "conf").run("nova", "check")
    assert done.status == 1
    assert (
        "error    hosts of cell cell1: no mapping, so Nova places no instances there: 1 host (h2)"
        in done.stdout
    )
    assert "\n         -> nova-manage cell_v2 discover_hosts" in done.stdout
    assert done.stdout.endswith("Not ready for the switch: 1 error, 4 warnings.\n")


def test_a_host_in_another_cell_than_its_mapping_is_an_error(cloud: Cloud) -> None:
    cloud.nova.api.change("host_mappings", {"host": "h3"}, cell_id=1)
    assert "mapped to another cell: 1 host (h3)" in cloud.problems()["hosts of cell cell2"]


def test_computes_that_get_no_instances_are_warned_of(cloud: Cloud) -> None:
    cloud.one.change("services", {"host": "h1"}, disabled=True)
    cloud.two.change("services", {"host": "h3"}, last_seen_up=ago(61))
    status, _ = cloud.check()
    problems = cloud.problems()
    assert status == 0
    assert "warning: disabled: 1 host (h1)" in problems["cell cell1"]
    assert "silent for more than 60 s (service_down_time): 1 host (h3)" in problems["cell cell2"]
    cloud.one.change("services", {"host": "h1"}, disabled=False, forced_down=True)
    assert "warning: forced down: 1 host (h1)" in cloud.problems()["cell cell1"]


def test_a_cell_that_cannot_be_read_does_not_hide_the_others(cloud: Cloud) -> None:
    cloud.one.close()
    cloud.directory.joinpath("cell1").write_text("no database")
    status, found = cloud.check()
    assert status == 1
    assert "error: Nova's database cell1 cannot be read" in cloud.problems()["cell cell1"]
    assert "cell cell2" in {each["subject"] for each in found["findings"] if each["state"] == "ok"}


def test_a_nova_conf_alone_would_have_us_write_into_a_cell(cloud: Cloud) -> None:
    cloud.configure(more=f"[database]\nconnection = sqlite:///{cloud.directory}/cell1\n")
    assert "[database] connection is" in cloud.problems()["cell cell1"]


def test_without_a_cloud_it_says_how_to_name_one(cloud: Cloud) -> None:
    (cloud.directory / "conf").write_text("")
    assert "--config-file /etc/nova/nova.conf" in cloud.problems()["API database"]


def test_an_unknown_filter_is_named(cloud: Cloud) -> None:
    cloud.configure(more="[filter_scheduler]\nenabled_filters = ComputeFilter,OwnFilter\n")
    assert "OwnFilter" in cloud.problems()["filters and weighers"]


FLAVOR = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}


@pytest.fixture
def flavored(cloud: Cloud) -> Cloud:
    """A cloud with a flavor that is in order."""
    cloud.nova.api.add("flavors", id=1, name="m1.tiny", **FLAVOR)
    for key, value in (("resources:VGPU", "1"), ("hw:cpu_policy", "shared")):
        cloud.nova.api.add("flavor_extra_specs", flavor_id=1, key=key, value=value)
    return cloud


def of_flavors(cloud: Cloud) -> list[tuple[str, str, str]]:
    """Return what is said of flavors."""
    _, found = cloud.check()
    return [
        (each["state"], each["subject"], each["text"])
        for each in found["findings"]
        if each["subject"].startswith("flavor")
    ]


def test_flavors_in_order_are_counted(flavored: Cloud) -> None:
    assert of_flavors(flavored) == [("ok", "flavors", "1 flavor, all understood")]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("resources:VGPU", "a few", "not a whole number of 0 or more"),
        ("resources:CUSTOM_CARD", "-1", "not a whole number of 0 or more"),
        ("trait:CUSTOM_FAST", "preferred", "neither required nor forbidden"),
    ],
)
def test_what_placement_would_not_understand_is_named(
    flavored: Cloud, key: str, value: str, problem: str
) -> None:
    flavored.nova.api.add("flavors", id=2, name="m1.odd", **FLAVOR)
    flavored.nova.api.add("flavor_extra_specs", flavor_id=2, key=key, value=value)
    ((state, subject, text),) = of_flavors(flavored)
    assert (state, subject) == ("warning", "flavor m1.odd")
    assert text.startswith("is refused here: ")
    assert key in text
    assert text.endswith(problem)


def test_of_a_database_that_cannot_be_read_nothing_is_said_of_flavors(flavored: Cloud) -> None:
    flavored.nova.api.close()
    (flavored.directory / "api").write_text("no database")
    assert of_flavors(flavored) == []
    (flavored.directory / "conf").write_text("")
    assert of_flavors(flavored) == []

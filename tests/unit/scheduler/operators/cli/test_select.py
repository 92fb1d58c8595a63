# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command select where a scheduler finds no host. Functional tests ask real ones."""

import re
from types import SimpleNamespace
from typing import ClassVar

import pytest

from inventory import aggregates
from scheduler.client import scheduler_client
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.cli.capacity import Capacity
from scheduler.operators.cli.request_arguments import request_specs
from scheduler.wire.errors import NoValidHost
from tests.databases import serve

TOLD = "No valid host was found. Too few."


class FullCloud:
    """A client of a scheduler that has no host for anything."""

    asked: ClassVar[list[str]] = []
    specs: ClassVar[list[RequestSpec]] = []

    def __init__(self, conf):
        pass

    def close(self):
        pass

    def select_destinations(self, caller, spec, *_arguments):
        self.asked.append(caller.request_id)
        self.specs.append(spec)
        raise NoValidHost("Too few.")


@pytest.fixture
def full(monkeypatch):
    monkeypatch.setattr(FullCloud, "asked", [])
    monkeypatch.setattr(FullCloud, "specs", [])
    monkeypatch.setattr(scheduler_client, "SchedulerClient", FullCloud)
    return FullCloud


def test_who_is_refused_learns_where_to_ask(command, full):
    refused = command.refused("select")
    (request,) = full.asked
    assert re.fullmatch("req-[0-9a-f-]{36}", request)
    assert refused == f"{TOLD}\n'berthmaster {command.options[0]} explain {request}' says why"


def test_there_is_nothing_to_explain_where_nothing_is_kept(command, full):
    with command.config.open("a") as config:
        config.write("[decisions]\nkeep = false\n")
    assert command.refused("select") == TOLD


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["--force-host=compte1"], ["there is no host 'compte1'; did you mean compute1?"]),
        (["--ignore-host=compte1", "--force-host=COMPUTE1"], ["there is no host 'compte1'; did"]),
        (["--availability-zone=nov"], ["there is no availability zone 'nov'; did you mean nova?"]),
        (
            ["--force-host=xyz", "--availability-zone=north"],
            ["no host 'xyz'; see 'service list'", "zone 'north'; see 'availability zone list'"],
        ),
        (["--force-host=compute1", "--availability-zone=nova"], []),
    ],
)
def test_who_is_refused_learns_which_names_are_unknown(database, command, full, arguments, lines):
    serve(database, "compute1")
    told, *unknown, _explain = command.refused("select", *arguments).splitlines()
    assert (told, len(unknown)) == (TOLD, len(lines))
    assert all(part in line for part, line in zip(lines, unknown, strict=True))


def test_without_a_database_nothing_is_said_about_names(command, full):
    text = command.config.read_text()
    command.config.write_text(text.replace("inventory.sqlite", "nowhere.sqlite"))
    told, _explain = command.refused("select", "--force-host=compte1").splitlines()
    assert told == TOLD


def test_cells_that_are_not_understood_are_refused_before_anybody_is_asked(command, full):
    refused = command.refused("select", "--extra-spec=hw:cpu_policy=mixed")
    assert refused == "hw:cpu_policy: 'mixed' is not one of shared, dedicated"
    assert full.asked == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--flavor=m1.large=4,8192,40"],
        ["--vcpus=4", "--memory-mb=8192", "--disk-gb=40"],
        ["--memory-mb=2048"],
        ["--flavor=4,8192,40", "--extra-spec=hw:numa_nodes=2", "--extra-spec=hw:mem_page_size=2MB"],
        ["--vcpus=2", "--image-property=hw_disk_bus=virtio", "--availability-zone=east"],
        ["--vcpus=2", "--pci-device=8086:10fb:2", "--hint=a=b", "--project=p1"],
        ["--vcpus=2", "--aggregate=rack"],
    ],
    ids=" ".join,
)
def test_a_request_is_said_as_for_capacity(command, database, full, arguments):
    database.write(lambda c: aggregates.create(c, "rack", [], {}))
    command.refused("select", *arguments)
    (asked,) = full.specs
    parser = Capacity(SimpleNamespace(NAME="berthmaster"), None).get_parser("capacity")
    (counted,) = request_specs(parser.parse_args(arguments), database.read(aggregates.everything))
    for name in (
        "flavor",
        "numa_topology",
        "image",
        "availability_zone",
        "pci_requests",
        "scheduler_hints",
        "project_id",
        "requested_destination",
    ):
        assert getattr(asked, name) == getattr(counted, name), name


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--flavor=1,1,1", "--vcpus=2"], "argument --vcpus: cannot be used with --flavor"),
        (["--flavor=1,1,1", "--flavor=2,2,2"], "argument --flavor: may be given once only"),
    ],
    ids=["both", "two"],
)
def test_one_size_is_asked_for(command, full, arguments, problem):
    assert problem in command.refused("select", *arguments, status=2)
    assert full.asked == []


def test_an_aggregate_that_does_not_exist_is_refused_before_anybody_is_asked(command, full):
    assert "'rack'" in command.refused("select", "--aggregate=rack")
    assert full.asked == []

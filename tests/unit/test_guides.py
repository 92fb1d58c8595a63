# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests that the guides tell the truth: their example, options, commands and lines of logs."""

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from oslo_db import options as database_options
from oslo_log import _options as log_options
from oslo_messaging import opts as messaging_options
from oslo_reports import opts as report_options
from oslo_service import _options as service_options

from conf import opts
from scheduler.analysis.explain import explain
from scheduler.decision import pipeline
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.cli.arguments import RPC_TIMEOUT
from scheduler.plugins import load_driver
from tests import guides
from tests.builders import a_request
from tests.databases import a_conf
from tests.fixtures.daemons.process import PATIENCE
from tests.fixtures.documented import ROOT
from tests.hosts import a_host, a_table

DECIDING = guides.page("user/scheduling")
DRIVER = load_driver(a_conf())
# The columns of the example, and the weighers that they show.
SHARES = {"CPU": "CPUWeigher", "disk": "DiskWeigher", "I/O": "IoOpsWeigher", "RAM": "RAMWeigher"}


def the_fleet() -> HostTable:
    """Return the hosts of the example as the page lists them."""
    rows = guides.table_rows(DECIDING, "vCPUs used")
    return a_table(*(_host(*row.values()) for row in rows))


def _host(name: str, used: str, memory: str, disk: str, service: str) -> Any:
    return a_host(
        name,
        vcpus_used=int(used),
        cpu_allocation_ratio=4.0,
        free_ram_mb=int(memory.removesuffix(" MB")),
        free_disk_mb=int(disk.removesuffix(" GB")) * 1024,
        service_disabled=service == "disabled",
    )


def the_request() -> RequestSpec:
    asked = re.search(r"instances of (\d+) vCPUs, (\d+) MB and (\d+) GB", DECIDING)
    assert asked is not None
    vcpus, memory_mb, disk_gb = map(int, asked.groups())
    return a_request(vcpus=vcpus, memory_mb=memory_mb, root_gb=disk_gb)


def decided(hosts: HostTable, uuids: Sequence[str]) -> Decision:
    return pipeline.decide(hosts, Request(the_request(), uuids, alternates=2), DRIVER.plan)


def as_shown(decision: Decision, columns: Iterable[str]) -> list[dict[str, str]]:
    """Return the weights of the first instance's hosts as the page shows them."""
    weighed = decision.placements[0].weighed
    for each in weighed:
        counting = {name for name, share in each.shares.items() if share}
        assert counting <= {SHARES[column] for column in columns}
    return [
        {"host": each.host}
        | {column: f"{each.shares[SHARES[column]] + 0.0:.3f}" for column in columns}
        | {"sum": f"{each.total:.3f}"}
        for each in weighed
    ]


def test_the_example_goes_as_the_page_says() -> None:
    decision = decided(the_fleet(), ["first", "second"])
    assert [each.chosen.host for each in decision.placements] == ["node2", "node5"]
    assert {each.host for p in decision.placements for each in p.alternates} == {"node1"}
    steps = " ".join(map(str, decision.placements[0].steps))
    assert steps in " ".join(DECIDING.split())
    limits = {**decision.placements[0].chosen.limits}
    assert limits == {"vcpu": 64, "memory_mb": 65536, "disk_gb": 1000}


def test_the_weights_of_the_example_are_those_that_are_computed() -> None:
    hosts = the_fleet()
    first = as_shown(decided(hosts, ["first"]), ["CPU", "disk", "RAM"])
    assert first == guides.table_rows(DECIDING, "CPU")
    # The first instance was taken off this table.
    second = as_shown(decided(hosts, ["second"]), ["CPU", "disk", "I/O", "RAM"])
    assert second == guides.table_rows(DECIDING, "I/O")


def test_the_reasons_of_the_example_are_those_that_are_given() -> None:
    asked = Request(the_request(), ["first", "second"])
    reasons = [
        f"   {each.host} {each.filter}: {each.reason}\n"
        for verdict in explain(the_fleet(), asked, DRIVER, 0).verdicts
        for each in verdict.refusals
    ]
    assert len(reasons) == 2
    assert "".join(reasons) in DECIDING


GUIDES = [
    "user/quickstart",
    "user/scheduling",
    "admin/configuration",
    "admin/installation",
    "admin/security",
    "admin/troubleshooting",
    "admin/tuning",
    "admin/upgrading",
]
OPTION = re.compile(r"\[(\w+)\] ([a-z_]+)")
# Named to say that we have none of it, or by another name.
ABSENT = {("filter_scheduler", "pci_in_placement"), ("pci", "passthrough_whitelist")}
# The groups of other files: of another program, and of clouds.
FOREIGN = {("mysqld", "bind"), ("lab", "config_file"), ("production", "config_dir")}
METRIC = re.compile(r"``(berthmaster_(?!scheduler|agent|reader|operator)\w+)``")
# What stands in a line that is quoted, and the lines of a source in which texts go on.
QUOTED = re.compile(r":(?:In the log|You see):((?:\s+``[^`]+``)+)")
GOES_ON = re.compile(r'"\n\s*f?"')
PLACE = re.compile(r"%[.\d]*[sdgfr]|\{[^{}]*\}|\.\.\.|: ")
# Of the broker, the database server and the library of messages.
OF_OTHERS = {
    "ACCESS_REFUSED",
    "AMQP server on",
    "Endpoint does not support RPC version 5.0",
    "command denied to user",
    "is unreachable",
}


def known_options() -> set[tuple[str, str]]:
    """Return all options of ours and of the libraries, by group and name."""
    found = {("DEFAULT", each.name) for each in service_options.service_opts}
    for module in (opts, database_options, messaging_options, log_options, report_options):
        for group, options in module.list_opts():
            # Some list a group, some its name.
            name = str(getattr(group, "name", group) or "DEFAULT")
            found |= {(name, each.name.replace("-", "_")) for each in options}
    return found


def sources() -> str:
    """Return the code, in which each text stands in one piece, with ... for what differs."""
    files = [
        path
        for package in ("conf", "compute_agent", "inventory", "scheduler")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    return PLACE.sub("...", GOES_ON.sub("", "\n".join(path.read_text() for path in files)))


def quoted(page: str) -> set[str]:
    """Return the pieces of all lines that a page quotes, without what differs in them."""
    found = set()
    for texts in QUOTED.findall(guides.page(page)):
        line = " ".join(re.findall("``([^`]+)``", " ".join(texts.split())))
        found |= {piece.strip(" :,;()") for piece in PLACE.split(line)}
    return {each for each in found if len(each) > 5}


@pytest.mark.parametrize("page", GUIDES)
def test_the_options_that_a_guide_names_exist(page: str) -> None:
    named = set(OPTION.findall(" ".join(guides.page(page).split())))
    assert named - ABSENT - FOREIGN - known_options() == set()


@pytest.mark.parametrize("page", GUIDES)
def test_the_metrics_that_a_guide_names_exist(page: str) -> None:
    code = sources()
    for name in METRIC.findall(guides.page(page)):
        # A counter has its ending from the library.
        assert f'"{name.removesuffix("_total")}"' in code, name


def test_the_lines_that_the_guide_to_troubles_quotes_are_those_of_the_code() -> None:
    code, lines = sources(), quoted("admin/troubleshooting")
    assert len(lines) > 30
    assert {each for each in lines if each not in code} - OF_OTHERS == set()


def test_the_page_about_hosts_says_how_long_an_agent_is_waited_for() -> None:
    text = " ".join(guides.page("admin/hosts").split())
    assert f"``--timeout`` ({RPC_TIMEOUT:g} s) says how long the command waits" in text


@pytest.mark.parametrize(("page", "count"), [("index", 40), ("architecture", 40)])
def test_the_files_that_the_pages_for_contributors_name_are_there(page: str, count: int) -> None:
    named = re.findall(r"``([a-z_]+(?:/[\w.]+)+)``", guides.page(f"contributor/{page}"))
    assert len(named) > count
    assert [each for each in named if not ("NAME" in each or (ROOT / each).exists())] == []


@pytest.mark.parametrize("program", ["user/ask.py", "user/build.py", "admin/maintain.py"])
def test_a_program_of_a_guide_loads_no_eventlet(program: str, tmp_path: Path) -> None:
    arguments = ["agent", "host"] if program == "admin/maintain.py" else []
    missing = tmp_path / "missing.conf"
    command = [sys.executable, ROOT / "doc/source" / program, *arguments, missing]
    # It ends when it reads its configuration, with all that it needs imported.
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert "Failed to find some config files" in done.stderr
    assert "Eventlet" not in done.stderr

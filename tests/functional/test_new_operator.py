# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The walk of a new operator: no host is found, the reasons are shown, one is removed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.command import Command
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.deployment import Deployment

FAKE = {"DEFAULT": {"compute_driver": "fake"}, "fake": {"hosts": 3, "memory_mb": 65536}}
WANTED = ("--vcpus=2", "--disk-gb=10", "--availability-zone=nova")
MEMORY_MB = 60_000


class Walk:
    """What the operator types, and what comes of it; it is waited for in this process."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.command = Command(deployment.config)

    def json(self, *command: str) -> Any:
        return self.deployment.cli_json(*command)

    def text(self, *command: str) -> str:
        done = self.deployment.cli(*command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kept(self, outcome: str, count: int = 1) -> list[dict[str, Any]]:
        """Return the decisions of an outcome, of which there must be so many in a moment."""
        found: list[dict[str, Any]] = []

        def are_there() -> bool:
            found[:] = self.command.json("decision", "list", "--outcome", outcome)
            return len(found) == count

        assert wait_until(are_there), found
        return found


@pytest.fixture
def walk(deployment: Deployment) -> Walk:
    """Three fake hosts, as the quick start has them, and a scheduler."""
    deployment.agent(options=FAKE, name="node")
    deployment.scheduler()
    walk = Walk(deployment)
    assert wait_until(lambda: len(walk.command.json("host", "list")) == 3)
    return walk


def refusals(explained: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Return {host: [(filter, reason)]} of an explanation."""
    return {
        each["host"]: [(one["filter"], one["reason"]) for one in each["refusals"]]
        for each in explained["explanation"]["verdicts"]
    }


def test_a_refusal_is_explained_and_overcome(walk: Walk) -> None:
    # One host is in a zone of its own, one is switched off, and one is nearly full.
    walk.json("aggregate", "create", "east", "--zone", "east")
    walk.json("aggregate", "add", "host", "east", "node-0001")
    walk.text("host", "disable", "node-0002", "--reason", "new disks")
    big = walk.json("select", *WANTED, "--memory-mb=40000", "--keep")
    assert [each["Host"] for each in big] == ["node-0003"]

    done = walk.deployment.cli("select", *WANTED, f"--memory-mb={MEMORY_MB}")
    assert done.returncode == 1
    assert "No valid host was found" in done.stderr
    assert "node-0" not in done.stderr + done.stdout

    (refused,) = walk.kept("refused")
    request = refused["Request"]
    assert done.stderr.endswith(f" explain {request}' says why\n")
    explained = walk.json("explain", request, "--near-miss")
    found = refusals(explained)
    assert {host: [name for name, _ in each] for host, each in found.items()} == {
        "node-0001": ["AvailabilityZoneFilter"],
        "node-0002": ["ComputeFilter"],
        "node-0003": ["RamFilter"],
    }
    assert "east" in found["node-0001"][0][1]
    assert "new disks" in found["node-0002"][0][1]
    needs, left = map(int, re.findall(r"\d+", found["node-0003"][0][1])[:2])
    assert needs == MEMORY_MB
    text = walk.text("explain", request)
    for figure in (str(needs), str(left), "new disks", "east"):
        assert figure in text
    assert str(left) in walk.text("explain", request, "--host", "node-0003")

    # The smallest change that is suggested is made, to the last megabyte.
    suggested = explained["explanation"]["near_misses"][0]
    assert (suggested["host"], suggested["smaller"]) == ("node-0003", True)
    assert suggested["lacks"] == {"memory_mb": needs - left}
    less = MEMORY_MB - suggested["lacks"]["memory_mb"]
    refused_again = walk.deployment.cli("select", *WANTED, f"--memory-mb={less + 1}")
    assert refused_again.returncode == 1
    placed = walk.json("select", *WANTED, f"--memory-mb={less}")
    assert [each["Host"] for each in placed] == ["node-0003"]
    walk.kept("placed", 2)
    assert "placed on node-0003" in walk.text("explain", placed[0]["Instance"])


def test_a_placement_is_explained_and_made_again(walk: Walk, tmp_path: Path) -> None:
    walk.json("select", *WANTED, "--memory-mb=40000", "--keep")
    (placed,) = walk.json("select", *WANTED, "--memory-mb=1024")
    walk.kept("placed", 2)
    uuid, host = placed["Instance"], placed["Host"]
    explained = walk.json("explain", uuid)
    assert explained["same"] is True
    verdicts = {each["host"]: each for each in explained["explanation"]["verdicts"]}
    assert verdicts[host]["chosen"]
    (last,) = (name for name, each in verdicts.items() if each["rank"] == 3)
    assert "RAMWeigher" in walk.text("explain", uuid, "--host", last)

    saved = tmp_path / "decision.json"
    walk.text("decision", "save", uuid, str(saved))
    assert json.loads(saved.read_text())
    assert "the same decision" in walk.text("decision", "replay", str(saved))
    other = walk.deployment.write_config(
        "other", {"filter_scheduler": {"ram_weight_multiplier": "-10.0"}}
    )
    done = walk.deployment.cli(
        "decision", "replay", str(saved), "--config-file", str(other), "-f", "json"
    )
    assert done.returncode == 1, done.stderr
    (document,) = json.loads(done.stdout)
    (change,) = document["instances"]
    assert (change["kept"], change["now"]) == (host, last)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The commands for server groups, as operators type them."""

import pytest

from inventory import instances
from tests.databases import an_instance

GROUP = ("server", "group")


@pytest.fixture
def guests(database):
    """Two instances on a host, and one on another."""
    for host, uuids in (("h1", ["u1", "u2"]), ("h2", ["u3"])):
        seen = [an_instance(uuid) for uuid in uuids]
        database.write(lambda c, host=host, seen=seen: instances.replace(c, host, host, seen))


def test_a_group_from_its_beginning_to_its_end(command, guests):
    asked = ("--policy=anti-affinity", "--max-per-host=2")
    made = command.json(*GROUP, "create", "web", *asked)
    assert (made["policy"], made["rules"]) == ("anti-affinity", {"max_server_per_host": 2})
    shown = command.json(*GROUP, "add", "instance", "web", "u1", "u2", "u3")
    assert shown == command.json(*GROUP, "show", made["id"])
    assert (shown["members"], shown["hosts"]) == (["u1", "u2", "u3"], ["h1", "h2"])
    (row,) = command.json(*GROUP, "list")
    assert row == {
        "ID": made["id"],
        "Name": "web",
        "Policy": "anti-affinity",
        "Members": ["u1", "u2", "u3"],
    }
    assert "u1" not in command.run(*GROUP, "list").stdout
    assert "u1" in command.run(*GROUP, "list", "--long").stdout
    assert "has 3 members, on h1, h2: delete them" in command.refused(*GROUP, "delete", "web")
    command.json(*GROUP, "remove", "instance", "web", "u1", "u3")
    (gone,) = command.json(*GROUP, "delete", "web", "--force")
    assert gone == {"ID": made["id"], "Name": "web", "Policy": "anti-affinity"}
    assert command.json(*GROUP, "list") == []


@pytest.mark.parametrize(
    ("arguments", "status", "output"),
    [
        (["create", "WEB"], 1, "there is a server group 'web' already"),
        (["create", "x", "--policy=legacy"], 2, "invalid choice: 'legacy'"),
        (["create", "x", "--max-per-host=2"], 2, "is for the policy anti-affinity, not for"),
        (["create", "x", "--max-per-host=0"], 2, "'0' is not a whole number from 1"),
        (["create", "x", "--max-per-host", "9" * 20], 2, "is not a whole number from 1"),
        (["create", "x", "--max-per-host=many"], 2, "'many' is not a whole number"),
        (["show", "x"], 1, "there is no server group 'x'; see 'server group list'"),
        (["add", "instance", "x", "u1"], 1, "there is no server group 'x'"),
        (["add", "instance", "web", "u9"], 1, "there is no instance 'u9'"),
        (["add", "instance", "web", "u2"], 1, "break its policy anti-affinity on h1: move"),
        (["add", "instance", "web"], 2, "the following arguments are required: instance"),
        (["remove", "instance", "web", "u3"], 1, "'u3' is not in server group web, which has u1"),
        (["delete", "web"], 1, "server group web has 1 member, on h1"),
    ],
)
def test_wrong_changes_are_refused_in_a_line(command, guests, arguments, status, output):
    command.json(*GROUP, "create", "web", "--policy=anti-affinity")
    before = command.json(*GROUP, "add", "instance", "web", "u1")
    refused = command.refused(*GROUP, *arguments, status=status)
    assert output in refused
    assert status == 2 or "\n" not in refused
    assert command.json(*GROUP, "show", "web") == before


def test_the_policy_yields_to_force(command, guests):
    command.json(*GROUP, "create", "web", "--policy=anti-affinity")
    shown = command.json(*GROUP, "add", "instance", "web", "u1", "u2", "--force")
    assert shown["members"] == ["u1", "u2"]

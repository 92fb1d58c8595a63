# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The commands that say where instances are, after decisions of a scheduler."""

import pytest

from inventory import instances
from tests.databases import a_node, an_instance, save, serve
from tests.fixtures.keeping import KeepingScheduler, configured, uuids_of

SIZE = {"vcpus": 1, "memory_mb": 64, "root_gb": 0, "ephemeral_gb": 0, "swap": 0}
(WEB,) = uuids_of("web")


@pytest.fixture
def scheduler(database, command):
    """A scheduler that has placed an instance, and refused another."""
    save(database, a_node("h1"))
    serve(database, "h1")
    with KeepingScheduler(database, configured(command.config)) as keeping:
        assert keeping.ask("web", **SIZE)
        assert not keeping.ask("large", memory_mb=600_000)
    return database


def test_an_instance_leads_to_the_decision_about_it(scheduler, command):
    (row,) = command.json("instance", "list")
    assert (row["ID"], row["Host"], row["State"], row["Name"]) == (WEB, "h1", "pending", "")
    shown = command.json("instance", "show", WEB)
    assert (shown["decision_outcome"], shown["claims"][0]["state"]) == ("placed", "pending")
    decided = command.json("decision", "list", "--request", WEB)
    assert [each["Number"] for each in decided] == [shown["decision"]]
    assert command.json("explain", str(shown["decision"]))["explanation"]["chosen"]
    (large,) = uuids_of("large")
    refused = command.refused("instance", "show", large)
    assert (
        f"is on no host and has no claim; 'berthmaster {command.options[0]} explain {large}' shows"
        in refused
    )


def test_people_see_a_line_for_each_place_and_claim(scheduler, command):
    guest = an_instance(WEB, display_name="web", task_state="migrating")
    scheduler.write(lambda c: instances.replace(c, "h2", "h2", [guest]))
    text = command.run("instance", "show", "web").stdout
    assert "| places            | h2 (active, migrating) " in text
    assert "| pending on h1 until 20" in text
    assert "| web " in command.run("instance", "list", "--project=p1").stdout
    assert command.json("instance", "show", WEB[:5].upper())["name"] == "web"
    other = an_instance(WEB[:-1] + "0", display_name="api")
    scheduler.write(lambda c: instances.replace(c, "h3", "h3", [other]))
    refused = command.refused("instance", "show", WEB[:8])
    assert f"2 instances have a uuid that begins with {WEB[:8]!r}: " in refused
    assert command.refused("instance", "show", "%").startswith("there is no instance")
    assert command.refused("instance", "show", "wbe").endswith("did you mean web?")
    assert "is empty" in command.refused("instance", "list", "--host=", status=2)

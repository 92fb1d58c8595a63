# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.queries.instance_ends."""

from datetime import UTC, datetime, timedelta

from inventory import instances
from inventory.claims import claims
from inventory.claims.types import Claim, ClaimRequest
from inventory.queries.instance_ends import instance_ends
from tests.databases import a_node, a_uuid, an_instance, save

THERE, GONE, MOVED, UNKNOWN = (a_uuid(name) for name in ("there", "gone", "moved", "unknown"))


def report(database, host, *uuids):
    """Write the guests of a host, as its agent does."""
    found = [an_instance(uuid) for uuid in uuids]
    database.write(lambda connection: instances.replace(connection, host, host, found))


def ends(database, *uuids):
    return database.read(lambda connection: instance_ends(connection, uuids))


def test_instances_are_there_or_have_gone_or_are_unknown(database):
    report(database, "h1", THERE, GONE, MOVED)
    report(database, "h1", THERE)
    report(database, "h2", MOVED)
    found = ends(database, THERE, GONE, MOVED, UNKNOWN)
    assert found.there == {THERE, MOVED}
    assert {*found.deleted_at} == {GONE}
    ago = datetime.now(UTC).replace(tzinfo=None) - found.deleted_at[GONE]
    assert timedelta(seconds=-5) < ago < timedelta(seconds=60)
    assert ends(database) == (frozenset(), {})


def test_an_instance_that_is_claimed_again_is_there(database):
    save(database, a_node("h1", id=1, memory_mb_used=0, free_ram_mb=65536))
    report(database, "h1", GONE)
    report(database, "h1")
    assert {*ends(database, GONE).deleted_at} == {GONE}
    size = {"vcpus": 1, "memory_mb": 1024, "disk_mb": 0, "limits": {"vcpu": 16.0}}
    wanted = Claim(GONE, node_id=1, host="h1", node="h1", answer="", **size)
    request = ClaimRequest(request_id="req-1", digest="d", claims=[wanted], lease=900)
    database.write(lambda connection: claims.claim(connection, request))
    assert ends(database, GONE) == (frozenset({GONE}), {})

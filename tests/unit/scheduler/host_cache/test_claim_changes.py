# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: what claims of other schedulers change, in whatever order."""

import math
from itertools import chain

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inventory.claims import claims
from inventory.claims.numa_pci_usage import PCI
from inventory.claims.types import Claim, ClaimRequest, NodeDocuments
from inventory.objects import node_json
from inventory.objects.pci_and_network import PciDevicePool
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_cache import nodes as node_rows
from scheduler.host_cache.cache import HostCache
from tests.builders import a_request
from tests.databases import a_node, a_uuid, empty, execute, save, serve
from tests.unit.scheduler.host_cache.interrupted import Interrupted
from tests.unit.scheduler.host_cache.pushing import changed, delete, deliver, seen, write

HOSTS = ("h1", "h2", "h3")
UUIDS = [a_uuid(f"instance {number}") for number in range(4)]
FREE = 65024


@pytest.fixture
def cloud(database):
    """Return a database with three living hosts, whose rows have the ids 1 to 3."""
    save(database, *(a_node(host, id=number) for number, host in enumerate(HOSTS, 1)))
    serve(database, *HOSTS)
    return Interrupted(database.engine)


@pytest.fixture
def cache(cloud):
    return read(cloud)


def read(database):
    found = HostCache(database, max_age=3600, reload_interval=3600)
    found.refresh()
    return found


def order(uuid, *nodes, documents=(), **changes):
    """Return claims for an instance on the first node, and for alternates on the others."""
    about = {"flavor_id": 7, "flavor_name": "m", "project_id": "p", "image_properties": '{"a":"1"}'}
    sizes = {"vcpus": 1, "memory_mb": 2048, "disk_mb": 1500, "about": about | {"root_gb": 3}}
    wanted = [
        Claim(uuid, each, f"h{each}", f"h{each}", alternate=each != nodes[0], **sizes | changes)
        for each in nodes
    ]
    return ClaimRequest(f"req {uuid} {nodes}", "d", wanted, 900, documents=dict(documents))


def claim(database, *asked, **changes):
    """Claim as another scheduler does; return what it pushes."""
    wanted = order(*asked, **changes)
    return changed(database.write(lambda c: claims.claim(c, wanted)).changes)


def claim_each(database, *wanted):
    return changed(database.write(lambda c: claims.claim_each(c, wanted))[1])


def release(database, *uuids):
    return changed(database.write(lambda c: claims.release(c, uuids)))


def known(cache):
    """Return what a cache knows, but for when rows were written: messages do not say that."""
    return {
        host: {name: value for name, value in each.items() if name != "updated"}
        for host, each in seen(cache).items()
    }


def test_what_is_claimed_and_released_is_seen_at_once(cloud, cache):
    deliver(cache, claim(cloud, UUIDS[0], 1, 2))
    found = seen(cache)
    assert (found["h1"]["free_ram_mb"], found["h2"]["held_alternates"]) == (FREE - 2048, 1)
    assert found["h1"]["instances"][UUIDS[0]].flavor_name == "m"
    assert known(cache) == known(read(cloud))
    # To another host, where it was an alternate.
    deliver(cache, claim(cloud, UUIDS[0], 2, 3))
    assert known(cache) == known(read(cloud))
    deliver(cache, release(cloud, *UUIDS))
    assert known(cache) == known(read(cloud))
    assert seen(cache)["h2"]["free_ram_mb"] == FREE


def test_claims_that_were_made_together_are_one_change(cloud, cache):
    message = claim_each(cloud, *(order(uuid, 1, 2) for uuid in UUIDS))
    assert message["changes"]["nodes"]["after"] == [5, 5]
    deliver(cache, message)
    assert sorted(seen(cache)["h1"]["instances"]) == sorted(UUIDS)
    assert known(cache) == known(read(cloud))


def test_documents_travel_with_the_claims_that_change_them(cloud):
    pools = {
        count: node_json.pci_pools_to_json([PciDevicePool("10de", "1eb8", count=count)])
        for count in (1, 2)
    }
    execute(cloud, "UPDATE compute_nodes SET pci_stats = :pools WHERE id = 1", pools=pools[2])
    cache = read(cloud)
    plain = claim(cloud, UUIDS[0], 1)
    assert plain["changes"]["documents"] == {"node": [], "name": [], "text": []}
    documents = {1: NodeDocuments(2, {PCI: pools[1]})}
    taken = claim(cloud, UUIDS[1], 1, documents=documents, pci=pools[1])
    # Also one that waits for another.
    for message in (taken, plain):
        deliver(cache, message)
    assert [pool.count for pool in seen_pools(cache)] == [1]
    deliver(cache, release(cloud, UUIDS[1]))
    assert [pool.count for pool in seen_pools(cache)] == [2]
    assert known(cache) == known(read(cloud))


def seen_pools(cache):
    with cache.current(max_age=1e9) as hosts:
        return hosts.get(hosts.row_of("h1", "h1"), "pci_stats")


def test_a_change_waits_for_what_it_follows(cloud, cache):
    first, second, third = (claim(cloud, uuid, 1) for uuid in UUIDS[:3])
    before = known(cache)
    for message in (third, second):
        deliver(cache, message)
        assert known(cache) == before
    deliver(cache, first)
    assert known(cache) == known(read(cloud))
    cache.refresh()
    for message in (third, first, second):
        deliver(cache, message)
    assert known(cache) == known(read(cloud))
    # Nothing is missing.
    assert cache._nodes.early.overdue(math.inf) == set()


def test_a_node_of_which_a_change_is_missing_for_a_second_is_read_again(cloud, cache, monkeypatch):
    first, second = claim(cloud, UUIDS[0], 1), claim(cloud, UUIDS[1], 1)
    before = known(cache)
    deliver(cache, second)
    # So long ago that no reading looks for it.
    execute(cloud, "UPDATE compute_nodes SET updated_at = '2020-01-01 00:00:00.000000'")
    monkeypatch.setattr(node_rows, "PATIENCE", 3600.0)
    cache.refresh()
    assert known(cache) == before
    monkeypatch.setattr(node_rows, "PATIENCE", -1.0)
    cache.refresh()
    assert known(cache) == known(read(cloud))
    # Once is enough.
    assert cache._nodes.early.overdue(math.inf) == set()
    deliver(cache, first)
    assert known(cache) == known(read(cloud))


def test_what_waits_is_applied_after_the_row_that_it_follows(cloud, cache):
    claim(cloud, UUIDS[0], 1)
    row = write(cloud, "h1", id=1)
    deliver(cache, claim(cloud, UUIDS[1], 1))
    deliver(cache, row)
    assert known(cache) == known(read(cloud))


def test_no_more_changes_wait_than_are_worth_it(cloud, cache, monkeypatch):
    monkeypatch.setattr(node_rows, "MAX_WAITING", 2)
    messages = [claim(cloud, a_uuid(f"u{number}"), 1) for number in range(5)]
    for message in reversed(messages):
        deliver(cache, message)
    cache.refresh()
    assert known(cache) == known(read(cloud))


def test_changes_of_unknown_and_of_deleted_nodes_are_ignored(cloud, cache):
    message = claim(cloud, UUIDS[0], 1)
    deliver(cache, delete(cloud, "h1"))
    deliver(cache, message)
    message["changes"]["nodes"]["node_id"] = [99]
    deliver(cache, message)
    assert sorted(seen(cache)) == ["h2", "h3"]
    # Nobody has read anything yet.
    unread = HostCache(cloud)
    deliver(unread, message)
    assert len(unread._hosts) == 0


def test_a_node_that_has_never_reported_its_disk_is_read(cloud):
    execute(cloud, "UPDATE compute_nodes SET free_disk_gb = NULL, disk_mb_used = NULL")
    cache = read(cloud)
    deliver(cache, claim(cloud, UUIDS[0], 1))
    cache.refresh()
    assert known(cache) == known(read(cloud))


def test_what_was_consumed_without_a_claim_is_not_given_back(cloud, cache):
    spec = a_request(memory_mb=1024, force_hosts=["h1"])
    with cache.current(1e9) as hosts:
        decision = decide(hosts.working_copy(), Request(spec, UUIDS[:1]), Plan())
    cache.consume(decision, spec)
    before = known(cache)
    deliver(cache, claim(cloud, UUIDS[1], 1))
    assert known(cache) == before


def test_the_claim_of_an_instance_that_is_there_describes_it_no_more(cloud, cache):
    deliver(cache, write(cloud, "h1", UUIDS[:1], id=1))
    deliver(cache, claim(cloud, UUIDS[0], 1))
    assert seen(cache)["h1"]["instances"][UUIDS[0]].vm_state == "active"
    deliver(cache, release(cloud, UUIDS[0]))
    assert sorted(seen(cache)["h1"]["instances"]) == UUIDS[:1]
    assert known(cache) == known(read(cloud))


class Play:
    """A database, a cache of it, and messages that come in any order, again or never."""

    def __init__(self, database):
        self.database = database
        self.messages = []
        # What a reading would have found, by node id and generation.
        self.states = {}
        empty(database)
        save(database, *(a_node(host, id=number) for number, host in enumerate(HOSTS, 1)))
        serve(database, *HOSTS)
        self.note()
        self.cache = read(database)

    def note(self):
        for each in known(read(self.database)).values():
            self.states[each["node_id"], each["generation"]] = each

    def send(self, message):
        self.messages.append(message)
        self.note()

    def claim(self, uuid, *nodes):
        self.send(claim(self.database, UUIDS[uuid], *nodes))

    def claim_each(self, uuids, *nodes):
        self.send(claim_each(self.database, *(order(UUIDS[uuid], *nodes) for uuid in uuids)))

    def release(self, uuids):
        self.send(release(self.database, *(UUIDS[uuid] for uuid in uuids)))

    def audit(self, node):
        """Write the node's row as its agent does, with what is claimed there."""
        rows = self.database.read(lambda c: c.execute(sa.text(ROWS), {"id": node}).mappings().all())
        self.send(write(self.database, f"h{node}", **rows[0]))

    def deliver(self, numbers):
        for number in numbers:
            for message in self.messages[number : number + 1]:
                deliver(self.cache, message)
            for each in known(self.cache).values():
                assert each == self.states[each["node_id"], each["generation"]]

    def read(self, complete, uuid, node, numbers):
        def meanwhile():
            self.database.meanwhile = lambda: None
            self.claim(uuid, node)
            self.deliver([*numbers, len(self.messages) - 1])

        self.database.meanwhile = meanwhile
        if complete:
            self.cache._loaded_at = float("-inf")
        self.cache.refresh()
        self.deliver([])


ROWS = """SELECT id, uuid, vcpus_used, memory_mb_used, free_ram_mb, local_gb_used, free_disk_gb,
    disk_mb_used, free_disk_mb, claims, metrics FROM compute_nodes WHERE id = :id"""
NODES = st.permutations([1, 2, 3]).flatmap(
    lambda nodes: st.integers(1, 3).map(lambda number: tuple(nodes[:number]))
)
UUID = st.integers(0, len(UUIDS) - 1)
SOME = st.sets(UUID, max_size=3).map(tuple)
DELIVERIES = st.lists(st.integers(0, 20), max_size=5)
STEPS = st.lists(
    st.tuples(st.just("claim"), UUID, NODES)
    | st.tuples(st.just("claim_each"), SOME, NODES)
    | st.tuples(st.just("release"), SOME)
    | st.tuples(st.just("audit"), st.integers(1, 3))
    | st.tuples(st.just("deliver"), DELIVERIES)
    | st.tuples(st.just("deliver"), DELIVERIES)
    | st.tuples(st.just("read"), st.booleans(), UUID, st.integers(1, 3), DELIVERIES),
    max_size=14,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, DELIVERIES)
@example([("claim", 0, (1,)), ("claim", 1, (1,)), ("deliver", [1, 0])], [])
def test_however_messages_come_each_node_is_as_some_row_has_been_and_at_last_the_newest(
    cloud, steps, last
):
    play = Play(cloud)
    for verb, *arguments in steps:
        nodes = arguments.pop() if verb.startswith("claim") else ()
        getattr(play, verb)(*chain(arguments, nodes))
    play.cache.refresh()
    assert known(play.cache) == known(read(cloud))
    # What is delivered once more says nothing new.
    play.deliver(last)
    assert known(play.cache) == known(read(cloud))

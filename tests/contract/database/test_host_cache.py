# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: it has what is claimed, whoever claims and whatever it reads."""

from collections import Counter
from threading import Event, Thread

import pytest

from inventory import compute_nodes, instances
from inventory.claims import claims
from inventory.claims.types import Claim, ClaimLost, ClaimRequest
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_cache.cache import HostCache
from scheduler.host_cache.refresh_queries import read_nodes
from tests.builders import a_request
from tests.databases import a_node, a_uuid, an_instance, execute, save, serve
from tests.fixtures.daemons.process import PATIENCE
from tests.unit.scheduler.host_cache.pushing import deliver, seen, sent

NODES = (1, 2, 3)
ROOM = {"memory_mb": 65536.0}


@pytest.fixture
def cloud(database):
    """Return a database with three living hosts."""
    save(database, *(a_node(f"h{number}", id=number) for number in NODES))
    serve(database, *(f"h{number}" for number in NODES))
    return database


def a_cache(database):
    found = HostCache(database, max_age=3600, reload_interval=3600)
    found.refresh()
    return found


@pytest.fixture
def cache(cloud):
    return a_cache(cloud)


def order(uuid, *nodes, memory_mb=1024):
    """Return claims for an instance on the first node, and for alternates on the others."""
    first, *others = nodes
    sizes = {"vcpus": 1, "memory_mb": memory_mb, "disk_mb": 1500, "limits": ROOM}
    about = {"flavor_id": 7, "project_id": "p1"}
    wanted = [Claim(uuid, first, f"h{first}", f"h{first}", **sizes, about=about)]
    wanted += [
        Claim(uuid, each, f"h{each}", f"h{each}", **sizes, about=about, alternate=True)
        for each in others
    ]
    return ClaimRequest(f"req of {uuid} {nodes}", "d", wanted, 900)


def claim(database, uuid, *nodes, **size):
    wanted = order(uuid, *nodes, **size)
    return database.write(lambda connection: claims.claim(connection, wanted))


def there(cache):
    return {host: sorted(found["instances"]) for host, found in seen(cache).items()}


def figures(cache, host):
    found = seen(cache)[host]
    names = ("vcpus_used", "free_ram_mb", "disk_mb_used", "free_disk_mb", "num_instances")
    return tuple(found[name] for name in names)


def numbers(cache):
    """Return all that is known of each host besides its instances."""
    return {
        host: {name: each for name, each in found.items() if name != "instances"}
        for host, found in seen(cache).items()
    }


def test_deltas_pushes_doubts_and_complete_readings_have_the_same(cloud, cache):
    claim(cloud, "u1", 1, 2)
    claim(cloud, "u2", 1)
    pushed, doubting = a_cache(cloud), a_cache(cloud)
    claim(cloud, "u3", 3)
    claim(cloud, "u1", 2)
    cache.refresh()
    assert there(cache) == {"h1": ["u2"], "h2": ["u1"], "h3": ["u3"]}
    assert figures(cache, "h1") == (1, 65024 - 1024, 1500, 1000 * 1024 - 1500, 1)
    doubting.mark_stale(NODES)
    doubting.refresh()
    deliver(pushed, sent(cloud.read(lambda c: read_nodes(c, NODES))))
    anew = a_cache(cloud)
    assert seen(cache) == seen(anew) == seen(doubting) == seen(pushed)
    cloud.write(lambda c: claims.release(c, ["u2", "u3"]))
    cache.refresh()
    assert there(cache) == {"h1": [], "h2": ["u1"], "h3": []}
    assert figures(cache, "h1") == (0, 65024, 0, 1000 * 1024, 0)
    assert seen(cache) == seen(a_cache(cloud))


def test_a_claim_that_is_committed_late_is_found(cloud, cache):
    wanted, written, committed = order("u1", 1), Event(), Event()

    def work(connection):
        claims.claim(connection, wanted)
        written.set()
        assert committed.wait(PATIENCE)

    claiming = Thread(target=lambda: cloud.write(work))
    claiming.start()
    assert written.wait(PATIENCE)
    for _ in range(2):
        cache.mark_stale([1])
        cache.refresh()
    assert there(cache)["h1"] == []
    committed.set()
    claiming.join(PATIENCE)
    cache.refresh()
    assert there(cache)["h1"] == ["u1"]


def test_a_node_and_its_claims_are_of_one_moment(cloud):
    stop = Event()

    def others():
        for number in range(10_000):
            if stop.is_set():
                return
            claim(cloud, a_uuid(f"u{number}"), 1 + number % 3, memory_mb=1)

    claiming = Thread(target=others)
    claiming.start()
    try:
        for _ in range(50):
            found = cloud.read(lambda c: read_nodes(c, NODES))
            counted = Counter(each.compute_node_id for each in found.claims)
            assert {node.id: node.claims for node in found.nodes} == {
                each: counted[each] for each in NODES
            }
    finally:
        stop.set()
        claiming.join(PATIENCE)


def test_many_who_claim_and_read_at_once_leave_a_cache_of_what_is_there(cloud, cache, caplog):
    """Threads reserve, claim, lose and read in one cache, and push to it what they have done."""
    failures = []

    def requests(first):
        try:
            for number in range(first, first + 8):
                place(cloud, cache, f"u{number}", 1 + number % 3)
        except Exception as error:
            failures.append(error)

    threads = [Thread(target=requests, args=(100 * each,)) for each in range(4)]
    for each in threads:
        each.start()
    while any(each.is_alive() for each in threads):
        cache._loaded_at = float("-inf")
        cache.refresh()
    for each in threads:
        each.join(PATIENCE)
    assert failures == []
    assert cache.nodes_in_flight == frozenset()
    cache.refresh()
    anew = a_cache(cloud)
    assert there(cache) == there(anew)
    assert numbers(cache) == numbers(anew)
    # 65024 MB are free of each, and each takes 20000.
    assert [len(each) for each in there(cache).values()] == [3, 3, 3]
    assert "wrong figures of 0 others" in caplog.text or "healed" not in caplog.text


def place(cloud, cache, uuid, node):
    """Walk as a request does: decide, reserve, claim, and read again what was lost."""
    spec = a_request(instance_uuid=uuid, memory_mb=20000, force_hosts=[f"h{node}"])
    with cache.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, [uuid]), Plan())
        reserved = cache.begin_claim(decision, spec)
    try:
        cache.apply_changes(claim(cloud, uuid, node, memory_mb=20000).changes)
    except ClaimLost as lost:
        cache.mark_stale({*reserved, *lost.nodes})
        cache.refresh()
    finally:
        cache.end_claim(reserved)


def test_a_node_that_is_deleted_takes_its_claims_with_it(cloud, cache):
    claim(cloud, "u1", 1)
    cache.refresh()
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    cache.refresh()
    assert there(cache) == {"h2": [], "h3": []}
    assert seen(cache) == seen(a_cache(cloud))
    # Its successor has none of them.
    save(cloud, a_node("h1", id=9, uuid=a_uuid("another")))
    cache.refresh()
    assert there(cache)["h1"] == []


def test_the_instances_of_a_host_that_lists_others_are_read_once_more(cloud, cache):
    for host, uuid in (("h1", "u1"), ("h2", "u2")):
        rows = [an_instance(a_uuid(uuid)), an_instance(a_uuid(f"lost {uuid}"))]
        cloud.write(lambda c, host=host, rows=rows: instances.replace(c, host, host, rows))
    cache.refresh()
    for uuid in ("u1", "u2"):
        execute(cloud, "DELETE FROM instances WHERE uuid = :uuid", uuid=a_uuid(f"lost {uuid}"))
    # Letter case counts, whatever the database thinks of it.
    cache.compare_instances("H2", [])
    cache.compare_instances("h1", [a_uuid("new")])
    cache.refresh()
    assert there(cache) == {
        "h1": [a_uuid("u1")],
        "h2": sorted([a_uuid("u2"), a_uuid("lost u2")]),
        "h3": [],
    }

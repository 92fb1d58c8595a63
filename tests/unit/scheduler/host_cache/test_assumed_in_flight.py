# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: what is reserved and claimed, until the rows of nodes say so."""

import logging

import pytest
import sqlalchemy as sa

from inventory import compute_nodes, instances
from inventory.claims import claims
from inventory.claims.types import Claim, ClaimRequest
from inventory.database_errors import DatabaseUnavailable
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_cache.cache import HostCache
from scheduler.host_cache.refresh_queries import read_nodes
from tests.builders import a_request
from tests.databases import a_node, a_uuid, an_instance, execute, save, serve
from tests.unit.scheduler.host_cache.interrupted import Interrupted
from tests.unit.scheduler.host_cache.pushing import changed, deliver, seen, sent, write

FREE = 65024
LONG_AGO = "strftime('%Y-%m-%d %H:%M:%f000', updated_at, '-60 seconds')"


@pytest.fixture
def cloud(database):
    """Return a database with two living hosts, whose rows have the ids 1 and 2."""
    save(database, a_node("h1", id=1), a_node("h2", id=2))
    serve(database, "h1", "h2")
    return Interrupted(database.engine)


@pytest.fixture
def cache(cloud):
    """Return a cache that has been read and does not look again by itself."""
    found = HostCache(cloud, max_age=3600, reload_interval=3600)
    found.refresh()
    return found


def reserve(cache, host, *uuids, **changes):
    """Decide for instances of 2048 MB on a host, and reserve them."""
    spec = a_request(memory_mb=2048, force_hosts=[host], **changes)
    with cache.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, uuids), Plan())
        return cache.begin_claim(decision, spec)


def a_claim(uuid, node, **changes):
    ordinary = {"vcpus": 1, "memory_mb": 2048, "disk_mb": 1500}
    return Claim(uuid, node, f"h{node}", f"h{node}", **ordinary | changes)


def claim(database, *wanted):
    """Claim as another scheduler does."""
    order = ClaimRequest(f"req of {wanted[0].instance_uuid}", "d", wanted, 900)
    return database.write(lambda c: claims.claim(c, order))


def free(cache, host):
    return seen(cache)[host]["free_ram_mb"]


def there(cache, host):
    return sorted(seen(cache)[host]["instances"])


def reload(cache):
    cache._loaded_at = float("-inf")
    cache.refresh()


def push(database, *ids):
    """Return what a scheduler pushes of nodes."""
    return sent(database.read(lambda c: read_nodes(c, ids)))


def test_a_reservation_takes_figures_and_makes_residents(cache):
    before = seen(cache)["h1"]
    assert reserve(cache, "h1", "u1", "u2") == {1}
    after = seen(cache)["h1"]
    spec = a_request(memory_mb=2048)
    assert after["free_ram_mb"] == before["free_ram_mb"] - 2 * 2048
    assert after["free_disk_mb"] == before["free_disk_mb"] - 2 * spec.disk_mb
    assert after["vcpus_used"] == before["vcpus_used"] + 2 * spec.vcpus
    assert (after["num_instances"], after["num_io_ops"]) == (2, 2)
    assert sorted(after["instances"]) == ["u1", "u2"]
    assert after["instances"]["u1"].host == "h1"
    # It is no row of the database.
    for name in ("updated", "generation", "numa_topology", "pci_stats"):
        assert after[name] == before[name]
    assert free(cache, "h2") == FREE


def test_a_bare_metal_node_is_reserved_whole(cloud):
    save(cloud, a_node("h1", hypervisor_type="ironic"))
    cache = HostCache(cloud, max_age=3600)
    reserve(cache, "h1", "u1")
    found = seen(cache)["h1"]
    assert (found["free_ram_mb"], found["free_disk_mb"], found["vcpus_used"]) == (0, 0, 16)


def test_instances_without_uuid_and_hosts_that_are_gone(cloud, cache):
    assert reserve(cache, "h1", None) == {1}
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 2048, [])
    spec = a_request(force_hosts=["h2"])
    with cache.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, ["u1"]), Plan())
    cloud.write(lambda c: compute_nodes.delete(c, "h2", ["h2"]))
    cache.refresh()
    assert cache.begin_claim(decision, spec) == frozenset()
    assert cache.nodes_in_flight == {1}


def test_a_rebuild_takes_nothing(cache):
    hints = {"_nova_check_type": ["rebuild"]}
    assert reserve(cache, "h1", "u1", scheduler_hints=hints) == frozenset()
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE, [])


def test_a_newer_row_replaces_what_was_reserved(cloud, cache):
    reserve(cache, "h1", "u1")
    claim(cloud, a_claim("u2", 1, memory_mb=1024))
    cache.refresh()
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 1024, ["u2"])
    claim(cloud, a_claim("u1", 1))
    cache.refresh()
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 1024 - 2048, ["u1", "u2"])
    assert seen(cache)["h1"]["num_instances"] == 2


def test_what_others_claim_and_release_is_seen_by_the_next_delta(cloud, cache):
    claim(cloud, *(a_claim(f"u{node}", node, about={"flavor_id": 7}) for node in (1, 2)))
    cache.refresh()
    assert (there(cache, "h1"), there(cache, "h2")) == (["u1"], ["u2"])
    assert seen(cache)["h1"]["instances"]["u1"].instance_type_id == 7
    assert seen(cache)["h1"]["free_disk_mb"] == 1000 * 1024 - 1500
    assert seen(cache) == seen(read(cloud))
    cloud.write(lambda c: claims.release(c, ["u1"]))
    cache.refresh()
    assert (there(cache, "h1"), free(cache, "h1")) == ([], FREE)


def test_claims_are_read_only_of_nodes_that_have_changed(cloud, cache):
    statements = []
    sa.event.listen(cloud.engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
    cache.refresh()
    assert not [each for each in statements if "allocations" in each]
    claim(cloud, a_claim("u1", 1))
    del statements[:]
    cache.refresh()
    assert len([each for each in statements if "allocations" in each]) == 1


def test_what_another_scheduler_pushes_is_seen_at_once(cloud, cache):
    claim(cloud, a_claim("u1", 1), a_claim("u2", 2))
    message = push(cloud, 1)
    deliver(cache, message)
    assert (there(cache, "h1"), there(cache, "h2")) == (["u1"], [])
    before = seen(cache)
    # Its own as well, which says nothing new, also after it has taken something else.
    deliver(cache, message)
    assert seen(cache) == before
    reserve(cache, "h1", "u3")
    deliver(cache, message)
    assert there(cache, "h1") == ["u1", "u3"]
    cache.refresh()
    deliver(cache, message)
    assert there(cache, "h2") == ["u2"]


def test_a_doubt_gives_back_what_was_reserved(cloud, cache):
    reserve(cache, "h1", "u1")
    reserve(cache, "h2", "u1")
    cache.mark_stale([1, 2, 99])
    cache.refresh()
    assert (free(cache, "h1"), free(cache, "h2")) == (FREE, FREE)
    assert (there(cache, "h1"), there(cache, "h2")) == ([], [])
    assert seen(cache) == seen(read(cloud))


def test_a_view_that_was_never_read_reads_everything(cloud):
    cache = HostCache(cloud)
    assert cache.age == float("inf")
    cache.mark_stale([1])
    cache.refresh()
    assert (free(cache, "h1"), free(cache, "h2")) == (FREE, FREE)


@pytest.mark.parametrize("how", ["deleted", "vanished"])
def test_a_node_that_is_doubted_and_gone_is_removed(cloud, cache, how):
    if how == "deleted":
        cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    else:
        execute(cloud, "DELETE FROM compute_nodes WHERE host = 'h1'")
    reserve(cache, "h1", "u1")
    cache.mark_stale([1])
    cache.refresh()
    assert sorted(seen(cache)) == ["h2"]


def test_what_is_distrusted_is_read_with_the_next_refresh(cloud, cache):
    execute(cloud, f"UPDATE compute_nodes SET updated_at = {LONG_AGO}")
    cache.refresh()
    reserve(cache, "h1", "u1")
    reserve(cache, "h2", "u2")
    cache.mark_stale([1])
    cache.refresh()
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE, [])
    assert (free(cache, "h2"), there(cache, "h2")) == (FREE - 2048, ["u2"])
    # Once is enough.
    reserve(cache, "h1", "u1")
    cache.refresh()
    assert there(cache, "h1") == ["u1"]


def test_what_could_not_be_read_again_is_read_with_the_next_refresh(cloud, cache):
    reserve(cache, "h1", "u1")
    cache.mark_stale([1])
    cloud.gone = True
    with pytest.raises(DatabaseUnavailable):
        cache.refresh()
    cloud.gone = False
    assert there(cache, "h1") == ["u1"]
    cache.refresh()
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE, [])


@pytest.mark.parametrize("complete", [False, True])
def test_what_is_distrusted_while_the_database_is_read_is_read_once_more(cloud, cache, complete):
    cloud.meanwhile = lambda: (reserve(cache, "h1", "u1"), cache.mark_stale([1]))
    (reload if complete else HostCache.refresh)(cache)
    # A complete reading replaces what was reserved in it.
    assert there(cache, "h1") == ([] if complete else ["u1"])
    assert cache._stale.keys() == {1}
    cache.refresh()
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE, [])


def test_a_doubt_whose_reading_is_overtaken_changes_nothing(cloud, cache):
    def meanwhile():
        deliver(cache, write(cloud, "h1", ["u2"], free_ram_mb=7))

    cache.mark_stale([1])
    cloud.meanwhile = meanwhile
    cache.refresh()
    assert (free(cache, "h1"), there(cache, "h1")) == (7, ["u2"])


def test_it_tells_where_agents_have_reported_an_instance(cloud, cache):
    cloud.write(lambda c: instances.replace(c, "h1", "h1", [an_instance("u1")]))
    reserve(cache, "h2", "u1")
    assert not cache.reports("u1", "h1", "h1")
    cache.refresh()
    assert cache.reports("u1", "h1", "h1")
    assert not cache.reports("u1", "h2", "h2")
    assert not cache.reports("u1", "h1", "n2")
    cloud.write(lambda c: instances.replace(c, "h1", "h1", []))
    cache.refresh()
    assert not cache.reports("u1", "h1", "h1")


def pushed(cloud, node):
    """Return what is pushed of a node now."""
    return sent(cloud.read(lambda connection: read_nodes(connection, [node])))


def apply_claim(cache, reserved, made):
    """End a reservation of which the claims were made."""
    cache.apply_changes(made.changes)
    cache.end_claim(reserved)


def test_a_claim_is_not_forgotten_when_an_older_row_is_pushed(cloud, cache):
    apply_claim(cache, reserve(cache, "h1", "u1"), claim(cloud, a_claim("u1", 1)))
    older = pushed(cloud, 1)
    apply_claim(cache, reserve(cache, "h1", "u2"), claim(cloud, a_claim("u2", 1)))
    # On its way while the second one was claimed.
    deliver(cache, older)
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 2 * 2048, ["u1", "u2"])
    # What others have done since counts.
    claim(cloud, a_claim("u3", 1))
    deliver(cache, pushed(cloud, 1))
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 3 * 2048, ["u1", "u2", "u3"])


def test_a_claim_follows_an_older_row_that_comes_before_it_is_made(cloud, cache):
    claim(cloud, a_claim("u1", 1))
    reserved = reserve(cache, "h1", "u2")
    deliver(cache, pushed(cloud, 1))
    apply_claim(cache, reserved, claim(cloud, a_claim("u2", 1)))
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 2 * 2048, ["u1", "u2"])
    assert seen(cache)["h1"]["num_instances"] == 2
    deliver(cache, pushed(cloud, 1))
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 2 * 2048, ["u1", "u2"])


def test_a_claim_whose_row_has_come_already_counts_once(cloud, cache):
    reserved = reserve(cache, "h1", "u1")
    made = claim(cloud, a_claim("u1", 1))
    deliver(cache, pushed(cloud, 1))
    apply_claim(cache, reserved, made)
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 2048, ["u1"])


@pytest.mark.parametrize("is_late", [False, True])
def test_claims_of_others_and_own_ones_on_a_node_come_in_any_order(cloud, cache, is_late):
    reserved = reserve(cache, "h1", "u1")
    other = changed(claim(cloud, a_claim("u2", 1)).changes)
    mine = claim(cloud, a_claim("u1", 1))
    if not is_late:
        deliver(cache, other)
    apply_claim(cache, reserved, mine)
    if is_late:
        # What was reserved holds until the other claim comes, or the node is read.
        assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 2048, ["u1"])
        deliver(cache, other)
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 2 * 2048, ["u1", "u2"])
    deliver(cache, changed(mine.changes))
    cache.refresh()
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 2 * 2048, ["u1", "u2"])
    assert seen(cache)["h1"]["num_instances"] == 2


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("others", [0, 1])
def test_a_row_from_before_a_claim_of_our_own_takes_nothing_back(cloud, cache, others, complete):
    reserved = reserve(cache, "h1", "u1")
    for number in range(others):
        claim(cloud, a_claim(f"other {number}", 1))
    if not complete:
        cache.mark_stale([1])

    def meanwhile():
        cloud.meanwhile = lambda: None
        apply_claim(cache, reserved, claim(cloud, a_claim("u1", 1)))

    cloud.meanwhile = meanwhile
    (reload if complete else HostCache.refresh)(cache)
    if not others:
        assert (free(cache, "h1"), there(cache, "h1")) == (FREE - 2048, ["u1"])
    cache.refresh()
    assert there(cache, "h1") == sorted(["u1", *(f"other {number}" for number in range(others))])
    assert free(cache, "h1") == FREE - (1 + others) * 2048


def test_what_is_reserved_while_all_is_read_is_no_difference(cloud, cache, caplog):
    reserved = reserve(cache, "h1", "u1")
    reload(cache)
    assert caplog.text == ""
    cache.end_claim(reserved)
    assert cache.nodes_in_flight == frozenset()


def test_a_newer_row_counts_in_a_complete_reading_whatever_is_reserved(cloud, cache):
    reserve(cache, "h1", "u1")
    claim(cloud, a_claim("u2", 1))
    reload(cache)
    assert there(cache, "h1") == ["u2"]


def test_what_was_left_behind_is_a_difference_which_is_logged_and_corrected(cloud, cache, caplog):
    cache.end_claim(reserve(cache, "h2", "u1"))
    cache.end_claim(reserve(cache, "h1", "u2"))
    reload(cache)
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE, [])
    assert caplog.messages == [
        "The host cache was out of date and is corrected: it had missed changes of 0 nodes and had"
        " wrong figures of 2 others: h1, h2"
    ]
    reload(cache)
    assert len(caplog.messages) == 1


def test_what_a_complete_reading_has_to_heal_anyway_is_no_drift(cloud, cache, caplog):
    reserve(cache, "h1", "u1")
    cache.mark_stale([1])
    consumed = a_request(memory_mb=2048, force_hosts=["h2"])
    with cache.current() as hosts:
        decision = decide(hosts.working_copy(), Request(consumed, ["u2"]), Plan())
    cache.consume(decision, consumed)
    reload(cache)
    assert (free(cache, "h1"), there(cache, "h1")) == (FREE, [])
    assert (free(cache, "h2"), there(cache, "h2")) == (FREE - 2048, ["u2"])
    assert caplog.text == ""


def test_many_names_are_cut_short(cloud, cache, caplog):
    for number in range(3, 10):
        save(cloud, a_node(f"h{number}", id=number))
    serve(cloud, *(f"h{number}" for number in range(3, 10)))
    cache.refresh()
    for number in range(1, 10):
        cache.end_claim(reserve(cache, f"h{number}", a_uuid(f"u{number}")))
    reload(cache)
    assert "wrong figures of 9 others: h1, h2, h3, h4, h5, ..." in caplog.text


def test_how_long_a_refresh_took_is_logged(cloud, cache, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    claim(cloud, a_claim("u1", 1))
    cache.refresh()
    reload(cache)
    monkeypatch.setattr("scheduler.host_cache.refresh_queries.SLOW", -1.0)
    cache.refresh()
    lines = [(each.levelname, each.message.partition(" in ")[0]) for each in caplog.records]
    assert [each for each in lines if "Read" in each[1]] == [
        ("DEBUG", "Read changed nodes (1)"),
        ("DEBUG", "Read all nodes (2)"),
        ("INFO", "Read changed nodes (0)"),
    ]
    assert 0 <= cache.age < 60


def read(database):
    found = HostCache(database, max_age=3600)
    found.refresh()
    return found

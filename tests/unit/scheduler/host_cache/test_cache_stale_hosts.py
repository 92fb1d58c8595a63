# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: hosts in casts of Nova's services are read once more."""

import pytest
import sqlalchemy as sa

from inventory import compute_nodes, instances
from inventory.claims import claims
from inventory.claims.types import Claim, ClaimRequest
from inventory.database_errors import DatabaseUnavailable
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_cache.cache import HostCache
from tests.builders import a_request
from tests.databases import a_node, an_instance, execute, save, serve
from tests.unit.scheduler.host_cache.interrupted import Interrupted
from tests.unit.scheduler.host_cache.pushing import deliver, seen, write

LONG_AGO = "'2001-01-01 00:00:00.000000'"
# Casts of Nova's services about a host.
HINTS = {
    "updated": HostCache.mark_host_stale,
    "deleted": lambda cache, host: cache.forget_instance(host, "u9"),
    "listed": lambda cache, host: cache.compare_instances(host, ["u9"]),
}


@pytest.fixture
def cloud(database):
    """Return a database with two living hosts that have an instance each."""
    save(database, a_node("h1", id=1), a_node("h2", id=2))
    serve(database, "h1", "h2")
    report(database, "h1", "u1")
    report(database, "h2", "u2")
    return Interrupted(database.engine)


@pytest.fixture
def cache(cloud):
    """Return a cache that has been read and is young for long."""
    found = HostCache(cloud, max_age=3600, reload_interval=3600)
    found.refresh()
    return found


def report(database, host, *uuids, node=None):
    seen = [an_instance(uuid) for uuid in uuids]
    database.write(lambda c: instances.replace(c, host, node or host, seen))


def unnoticed(database, host, *uuids):
    """Write the instances of a host with an old date, which a reading of changes leaves out."""
    execute(database, "DELETE FROM instances WHERE host = :host", host=host)
    report(database, host, *uuids)
    execute(database, f"UPDATE instances SET updated_at = {LONG_AGO} WHERE host = '{host}'")


def there(cache):
    """Return {host: uuids} as a decision sees it."""
    with cache.current() as hosts:
        return {
            hosts.get(row, "host"): sorted(hosts.instances.on(row)) for row in sorted(hosts.rows())
        }


def refreshed(cache, complete=False):
    """Return the same after the next refresh."""
    if complete:
        cache._loaded_at = float("-inf")
    cache.refresh()
    return there(cache)


def is_read(cloud, cache, host, uuid):
    """Return whether the next refresh reads all instances of a host, this new one too."""
    unnoticed(cloud, host, uuid)
    return uuid in refreshed(cache)[host]


def statements(cloud):
    """Return a list that grows with each statement."""
    found = []
    sa.event.listen(cloud.engine, "before_cursor_execute", lambda *a: found.append(a[2]))
    return found


@pytest.mark.parametrize("hint", HINTS.values(), ids=HINTS)
@pytest.mark.parametrize("rows", [["u1", "u8"], ["u8"], []])
def test_the_rows_of_a_host_are_read_with_the_next_refresh(cloud, cache, rows, hint):
    unnoticed(cloud, "h1", *rows)
    unnoticed(cloud, "h2")
    assert refreshed(cache) == {"h1": ["u1"], "h2": ["u2"]}
    hint(cache, "h1")
    found = statements(cloud)
    # No decision waits for that.
    assert there(cache) == {"h1": ["u1"], "h2": ["u2"]}
    assert found == []
    assert refreshed(cache) == {"h1": rows, "h2": ["u2"]}
    if "u8" in rows:
        assert seen(cache)["h1"]["instances"]["u8"].vcpus == 1


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("hint", HINTS.values(), ids=HINTS)
def test_a_host_is_read_once_for_a_hint(cloud, cache, hint, complete):
    hint(cache, "h1")
    refreshed(cache, complete)
    assert not is_read(cloud, cache, "h1", "u8")


def test_a_node_that_changed_unnoticed_is_read_too(cloud, cache):
    execute(
        cloud,
        f"UPDATE compute_nodes SET vcpus = 5, generation = 9, updated_at = {LONG_AGO}"
        " WHERE host = 'h1'",
    )
    cache.refresh()
    assert seen(cache)["h1"]["vcpus_total"] == 16
    cache.mark_host_stale("h1")
    cache.refresh()
    assert seen(cache)["h1"]["vcpus_total"] == 5
    assert seen(cache)["h1"]["generation"] == 9


def test_a_node_that_is_gone_unnoticed_is_gone(cloud, cache):
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    execute(cloud, f"UPDATE compute_nodes SET updated_at = {LONG_AGO}")
    cache.mark_host_stale("h1")
    assert refreshed(cache) == {"h2": ["u2"]}


def test_what_was_reserved_on_a_host_stays_when_it_is_read_again(cloud, cache):
    before = seen(cache)["h1"]["free_ram_mb"]
    with cache.current() as hosts:
        hosts.set(hosts.row_of("h1", "h1"), "free_ram_mb", before - 1)
    cache.mark_host_stale("h1")
    cache.refresh()
    assert seen(cache)["h1"]["free_ram_mb"] == before - 1


def send(cache, uuid, host):
    """Decide without claims that an instance goes to a host."""
    spec = a_request(memory_mb=1, force_hosts=[host])
    with cache.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, [uuid]), Plan())
    cache.consume(decision, spec)


def claim(cloud, uuid, host):
    """Claim as another scheduler does."""
    wanted = Claim(uuid, {"h1": 1, "h2": 2}[host], host, host, vcpus=1, memory_mb=1, disk_mb=1)
    cloud.write(lambda c: claims.claim(c, ClaimRequest(f"req {uuid}", "d", [wanted], 900)))


# What was decided or claimed may not have come yet.
@pytest.mark.parametrize("listed", [["u4", "u1", "u3", "u1"], ["u1", "u4"], ["u1"]])
def test_a_list_that_agrees_with_what_is_known_costs_nothing(cloud, cache, listed):
    send(cache, "u3", "h1")
    claim(cloud, "u4", "h1")
    cache.refresh()
    cache.compare_instances("h1", listed)
    assert not is_read(cloud, cache, "h1", "u8")


@pytest.mark.parametrize("listed", [["u1", "u7"], ["u7"], []])
def test_a_list_that_differs_has_the_host_read(cloud, cache, listed):
    cache.compare_instances("h1", listed)
    # What it names is there only if the database says so.
    assert refreshed(cache)["h1"] == ["u1"]
    cache.compare_instances("h1", listed)
    assert is_read(cloud, cache, "h1", "u8")


def test_the_nodes_of_a_host_are_compared_and_read_together(cloud):
    save(cloud, a_node("h3", "n1"), a_node("h3", "n2"))
    serve(cloud, "h3")
    report(cloud, "h3", "u3", node="n1")
    report(cloud, "h3", "u4", node="n2")
    cache = HostCache(cloud, max_age=3600, reload_interval=3600)

    def nodes():
        cache.refresh()
        with cache.current() as hosts:
            return {n: sorted(hosts.instances.on(hosts.row_of("h3", n))) for n in ("n1", "n2")}

    assert nodes() == {"n1": ["u3"], "n2": ["u4"]}
    cache.compare_instances("h3", ["u4", "u3"])
    execute(cloud, "DELETE FROM instances WHERE host = 'h3'")
    assert nodes() == {"n1": ["u3"], "n2": ["u4"]}
    cache.compare_instances("h3", ["u3"])
    assert nodes() == {"n1": [], "n2": []}


def test_a_thousand_hosts_that_differ_are_one_reading(cloud):
    names = [f"n{number:04}" for number in range(1000)]
    save(cloud, *map(a_node, names))
    serve(cloud, *names)
    cache = HostCache(cloud, max_age=3600, reload_interval=3600)
    there(cache)
    unnoticed(cloud, names[0], "u8")
    unnoticed(cloud, names[-1], "u9")
    for name in names:
        cache.compare_instances(name, ["u6"])
        cache.compare_instances(name, ["u7"])
    executed = statements(cloud)
    found = refreshed(cache)
    assert (found[names[0]], found[names[-1]]) == (["u8"], ["u9"])
    assert sum("SELECT instances" in each for each in executed) == 1 + 1000 // 500


@pytest.mark.parametrize("hint", HINTS.values(), ids=HINTS)
def test_unknown_hosts_are_not_remembered(cloud, cache, hint):
    for host in ("h9", "H1"):
        hint(cache, host)
    serve(cloud, "h9")
    deliver(cache, write(cloud, "h9", ["u8"]))
    for host in ("h9", "h1"):
        assert not is_read(cloud, cache, host, f"u7 {host}")


def test_a_host_that_goes_is_not_remembered(cloud, cache):
    cache.mark_host_stale("h1")
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    assert refreshed(cache) == {"h2": ["u2"]}
    save(cloud, a_node("h1", id=9, uuid=None))
    cache.refresh()
    assert not is_read(cloud, cache, "h1", "u8")


def test_a_host_is_read_when_the_database_is_back(cloud, cache):
    unnoticed(cloud, "h1", "u8")
    cache.mark_host_stale("h1")
    cloud.gone = True
    with pytest.raises(DatabaseUnavailable):
        cache.refresh()
    assert there(cache)["h1"] == ["u1"]
    cloud.gone = False
    assert refreshed(cache)["h1"] == ["u8"]


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("hint", HINTS.values(), ids=HINTS)
def test_a_hint_that_comes_during_a_reading_is_read_about_next(cloud, cache, hint, complete):
    def meanwhile():
        unnoticed(cloud, "h1", "u8")
        hint(cache, "h1")

    cache.mark_host_stale("h1")
    cloud.meanwhile = meanwhile
    assert refreshed(cache, complete)["h1"] == ["u1"]
    assert refreshed(cache)["h1"] == ["u8"]


def test_a_push_that_is_faster_than_the_reading_is_not_lost(cloud, cache):
    cache.mark_host_stale("h1")
    cloud.meanwhile = lambda: deliver(cache, write(cloud, "h1", ["u1", "u3"]))
    assert refreshed(cache)["h1"] == ["u1", "u3"]
    # What was read was old: the host is read once more.
    assert is_read(cloud, cache, "h1", "u8")


def test_an_instance_that_its_host_has_deleted_is_assumed_no_longer(cache):
    send(cache, "u5", "h1")
    cache.forget_instance("h2", "u5")
    cache.forget_instance("h9", "u5")
    assert there(cache)["h1"] == ["u1", "u5"]
    cache.forget_instance("h1", "u5")
    assert there(cache) == refreshed(cache) == {"h1": ["u1"], "h2": ["u2"]}


def test_a_deleted_instance_stays_while_its_row_or_claim_is_there(cloud, cache):
    claim(cloud, "u5", "h1")
    cache.refresh()
    for uuid in ("u1", "u5"):
        cache.forget_instance("h1", uuid)
        assert there(cache)["h1"] == refreshed(cache)["h1"] == ["u1", "u5"]
    cloud.write(lambda c: claims.release(c, ["u5"]))
    report(cloud, "h1")
    assert refreshed(cache)["h1"] == []

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_view: what is reserved and claimed, until the rows of nodes say so."""

import logging

import pytest
import sqlalchemy as sa

from inventory import claims, compute_nodes, instances
from inventory.engine import DatabaseUnavailable
from inventory.orders import Claim, Order
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_view import HostView
from scheduler.host_view.changes import of_nodes
from tests.builders import a_request
from tests.databases import a_node, a_uuid, an_instance, execute, save, serve
from tests.unit.scheduler.host_view.interrupted import Interrupted
from tests.unit.scheduler.host_view.pushing import deliver, seen, sent, write

FREE = 65024
LONG_AGO = "strftime('%Y-%m-%d %H:%M:%f000', updated_at, '-60 seconds')"


@pytest.fixture
def cloud(database):
    """Return a database with two living hosts, whose rows have the ids 1 and 2."""
    save(database, a_node("h1", id=1), a_node("h2", id=2))
    serve(database, "h1", "h2")
    return Interrupted(database.engine)


@pytest.fixture
def view(cloud):
    """Return a view that has been read and does not look again by itself."""
    found = HostView(cloud, max_age=3600, reload_interval=3600)
    found.refresh()
    return found


def reserve(view, host, *uuids, **changes):
    """Decide for instances of 2048 MB on a host, and reserve them."""
    spec = a_request(memory_mb=2048, force_hosts=[host], **changes)
    with view.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, uuids), Plan())
        return view.reserve(decision, spec)


def a_claim(uuid, node, **changes):
    ordinary = {"vcpus": 1, "memory_mb": 2048, "disk_mb": 1500}
    return Claim(uuid, node, f"h{node}", f"h{node}", **ordinary | changes)


def claim(database, *wanted):
    """Claim as another scheduler does."""
    order = Order(f"req of {wanted[0].instance_uuid}", "d", wanted, 900)
    return database.write(lambda c: claims.claim(c, order))


def free(view, host):
    return seen(view)[host]["free_ram_mb"]


def there(view, host):
    return sorted(seen(view)[host]["instances"])


def reload(view):
    view._loaded_at = float("-inf")
    view.refresh()


def push(database, *ids):
    """Return what a scheduler pushes of nodes."""
    return sent(database.read(lambda c: of_nodes(c, ids)))


def test_a_reservation_takes_figures_and_makes_residents(view):
    before = seen(view)["h1"]
    assert reserve(view, "h1", "u1", "u2") == {1}
    after = seen(view)["h1"]
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
    assert free(view, "h2") == FREE


def test_a_bare_metal_node_is_reserved_whole(cloud):
    save(cloud, a_node("h1", hypervisor_type="ironic"))
    view = HostView(cloud, max_age=3600)
    reserve(view, "h1", "u1")
    found = seen(view)["h1"]
    assert (found["free_ram_mb"], found["free_disk_mb"], found["vcpus_used"]) == (0, 0, 16)


def test_instances_without_uuid_and_hosts_that_are_gone(cloud, view):
    assert reserve(view, "h1", None) == {1}
    assert (free(view, "h1"), there(view, "h1")) == (FREE - 2048, [])
    spec = a_request(force_hosts=["h2"])
    with view.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, ["u1"]), Plan())
    cloud.write(lambda c: compute_nodes.delete(c, "h2", ["h2"]))
    view.refresh()
    assert view.reserve(decision, spec) == frozenset()
    assert view.reserved == {1}


def test_a_rebuild_takes_nothing(view):
    hints = {"_nova_check_type": ["rebuild"]}
    assert reserve(view, "h1", "u1", scheduler_hints=hints) == frozenset()
    assert (free(view, "h1"), there(view, "h1")) == (FREE, [])


def test_a_newer_row_replaces_what_was_reserved(cloud, view):
    reserve(view, "h1", "u1")
    claim(cloud, a_claim("u2", 1, memory_mb=1024))
    view.refresh()
    assert (free(view, "h1"), there(view, "h1")) == (FREE - 1024, ["u2"])
    claim(cloud, a_claim("u1", 1))
    view.refresh()
    assert (free(view, "h1"), there(view, "h1")) == (FREE - 1024 - 2048, ["u1", "u2"])
    assert seen(view)["h1"]["num_instances"] == 2


def test_what_others_claim_and_release_is_seen_by_the_next_delta(cloud, view):
    claim(cloud, *(a_claim(f"u{node}", node, about={"flavor_id": 7}) for node in (1, 2)))
    view.refresh()
    assert (there(view, "h1"), there(view, "h2")) == (["u1"], ["u2"])
    assert seen(view)["h1"]["instances"]["u1"].instance_type_id == 7
    assert seen(view)["h1"]["free_disk_mb"] == 1000 * 1024 - 1500
    assert seen(view) == seen(read(cloud))
    cloud.write(lambda c: claims.release(c, ["u1"]))
    view.refresh()
    assert (there(view, "h1"), free(view, "h1")) == ([], FREE)


def test_claims_are_read_only_of_nodes_that_have_changed(cloud, view):
    statements = []
    sa.event.listen(cloud.engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
    view.refresh()
    assert not [each for each in statements if "allocations" in each]
    claim(cloud, a_claim("u1", 1))
    del statements[:]
    view.refresh()
    assert len([each for each in statements if "allocations" in each]) == 1


def test_what_another_scheduler_pushes_is_seen_at_once(cloud, view):
    claim(cloud, a_claim("u1", 1), a_claim("u2", 2))
    message = push(cloud, 1)
    deliver(view, message)
    assert (there(view, "h1"), there(view, "h2")) == (["u1"], [])
    before = seen(view)
    # Its own as well, which says nothing new, also after it has taken something else.
    deliver(view, message)
    assert seen(view) == before
    reserve(view, "h1", "u3")
    deliver(view, message)
    assert there(view, "h1") == ["u1", "u3"]
    view.refresh()
    deliver(view, message)
    assert there(view, "h2") == ["u2"]


def test_a_doubt_gives_back_what_was_reserved(cloud, view):
    reserve(view, "h1", "u1")
    reserve(view, "h2", "u1")
    view.distrust([1, 2, 99])
    view.refresh()
    assert (free(view, "h1"), free(view, "h2")) == (FREE, FREE)
    assert (there(view, "h1"), there(view, "h2")) == ([], [])
    assert seen(view) == seen(read(cloud))


def test_a_view_that_was_never_read_reads_everything(cloud):
    view = HostView(cloud)
    assert view.age == float("inf")
    view.distrust([1])
    view.refresh()
    assert (free(view, "h1"), free(view, "h2")) == (FREE, FREE)


@pytest.mark.parametrize("how", ["deleted", "vanished"])
def test_a_node_that_is_doubted_and_gone_is_removed(cloud, view, how):
    if how == "deleted":
        cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    else:
        execute(cloud, "DELETE FROM compute_nodes WHERE host = 'h1'")
    reserve(view, "h1", "u1")
    view.distrust([1])
    view.refresh()
    assert sorted(seen(view)) == ["h2"]


def test_what_is_distrusted_is_read_with_the_next_refresh(cloud, view):
    execute(cloud, f"UPDATE compute_nodes SET updated_at = {LONG_AGO}")
    view.refresh()
    reserve(view, "h1", "u1")
    reserve(view, "h2", "u2")
    view.distrust([1])
    view.refresh()
    assert (free(view, "h1"), there(view, "h1")) == (FREE, [])
    assert (free(view, "h2"), there(view, "h2")) == (FREE - 2048, ["u2"])
    # Once is enough.
    reserve(view, "h1", "u1")
    view.refresh()
    assert there(view, "h1") == ["u1"]


def test_what_could_not_be_read_again_is_read_with_the_next_refresh(cloud, view):
    reserve(view, "h1", "u1")
    view.distrust([1])
    cloud.gone = True
    with pytest.raises(DatabaseUnavailable):
        view.refresh()
    cloud.gone = False
    assert there(view, "h1") == ["u1"]
    view.refresh()
    assert (free(view, "h1"), there(view, "h1")) == (FREE, [])


@pytest.mark.parametrize("complete", [False, True])
def test_what_is_distrusted_while_the_database_is_read_is_read_once_more(cloud, view, complete):
    cloud.meanwhile = lambda: (reserve(view, "h1", "u1"), view.distrust([1]))
    (reload if complete else HostView.refresh)(view)
    assert there(view, "h1") == ["u1"]
    view.refresh()
    assert (free(view, "h1"), there(view, "h1")) == (FREE, [])


def test_a_doubt_whose_reading_is_overtaken_changes_nothing(cloud, view):
    def meanwhile():
        deliver(view, write(cloud, "h1", ["u2"], free_ram_mb=7))

    view.distrust([1])
    cloud.meanwhile = meanwhile
    view.refresh()
    assert (free(view, "h1"), there(view, "h1")) == (7, ["u2"])


def test_it_tells_where_agents_have_reported_an_instance(cloud, view):
    cloud.write(lambda c: instances.replace(c, "h1", "h1", [an_instance("u1")]))
    reserve(view, "h2", "u1")
    assert not view.reports("u1", "h1", "h1")
    view.refresh()
    assert view.reports("u1", "h1", "h1")
    assert not view.reports("u1", "h2", "h2")
    assert not view.reports("u1", "h1", "n2")
    view.delete_instance("h1", "u1")
    assert not view.reports("u1", "h1", "h1")


def test_a_reservation_under_way_outlives_a_complete_reading(cloud, view, caplog):
    nodes = reserve(view, "h1", "u1")
    reload(view)
    assert (free(view, "h1"), there(view, "h1")) == (FREE - 2048, ["u1"])
    # Another one on the same node is settled.
    view.settled(reserve(view, "h1", "u2"))
    reload(view)
    assert there(view, "h1") == ["u1", "u2"]
    cloud.meanwhile = lambda: view.settled(nodes)
    reload(view)
    # What was read may be older than the claim that has come about since.
    assert there(view, "h1") == ["u1", "u2"]
    assert caplog.text == ""
    assert view.reserved == frozenset()


def test_a_newer_row_counts_in_a_complete_reading_whatever_is_reserved(cloud, view):
    reserve(view, "h1", "u1")
    claim(cloud, a_claim("u2", 1))
    reload(view)
    assert there(view, "h1") == ["u2"]


def test_what_was_left_behind_is_drift_which_is_said_and_healed(cloud, view, caplog):
    view.settled(reserve(view, "h2", "u1"))
    view.settled(reserve(view, "h1", "u2"))
    reload(view)
    assert (free(view, "h1"), there(view, "h1")) == (FREE, [])
    assert caplog.messages == [
        "The view of the hosts had missed changes of 0 nodes and wrong figures of 2 others:"
        " h1, h2; healed"
    ]
    reload(view)
    assert len(caplog.messages) == 1


def test_what_a_complete_reading_has_to_heal_anyway_is_no_drift(cloud, view, caplog):
    reserve(view, "h1", "u1")
    view.distrust([1])
    consumed = a_request(memory_mb=2048, force_hosts=["h2"])
    with view.current() as hosts:
        decision = decide(hosts.working_copy(), Request(consumed, ["u2"]), Plan())
    view.consume(decision, consumed)
    reload(view)
    assert (free(view, "h1"), there(view, "h1")) == (FREE, [])
    assert (free(view, "h2"), there(view, "h2")) == (FREE - 2048, ["u2"])
    assert caplog.text == ""


def test_many_names_are_cut_short(cloud, view, caplog):
    for number in range(3, 10):
        save(cloud, a_node(f"h{number}", id=number))
    serve(cloud, *(f"h{number}" for number in range(3, 10)))
    view.refresh()
    for number in range(1, 10):
        view.settled(reserve(view, f"h{number}", a_uuid(f"u{number}")))
    reload(view)
    assert "wrong figures of 9 others: h1, h2, h3, h4, h5, ...; healed" in caplog.text


def test_how_long_a_refresh_took_is_told(cloud, view, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    claim(cloud, a_claim("u1", 1))
    view.refresh()
    reload(view)
    monkeypatch.setattr("scheduler.host_view.changes.SLOW", -1.0)
    view.refresh()
    lines = [(each.levelname, each.message.partition(" in ")[0]) for each in caplog.records]
    assert [each for each in lines if "Read" in each[1]] == [
        ("DEBUG", "Read changes of 1 nodes"),
        ("DEBUG", "Read all 2 nodes"),
        ("INFO", "Read changes of 0 nodes"),
    ]
    assert 0 <= view.age < 60


def read(database):
    found = HostView(database, max_age=3600)
    found.refresh()
    return found

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_view: of what is pushed and what is read the newest counts."""

import logging
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inventory import aggregates
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_view import HostView
from scheduler.rpc.changes_endpoint import ChangesEndpoint
from tests.builders import a_request
from tests.databases import a_node, a_uuid, empty, execute, save, serve
from tests.unit.scheduler.host_view.interrupted import Interrupted
from tests.unit.scheduler.host_view.pushing import delete, deliver, seen, write


@pytest.fixture
def cloud(database):
    """Return a database with two living hosts, and services of two that have no node yet."""
    save(database, a_node("h1"), a_node("h2"))
    serve(database, "h1", "h2", "h3", "h4")
    return Interrupted(database.engine)


@pytest.fixture
def view(cloud):
    """Return a view that has been read and does not look again by itself."""
    found = HostView(cloud, cell_uuid="c1", reload_interval=3600)
    found.refresh()
    return found


def reload(view):
    view._loaded_at = float("-inf")
    view.refresh()


def free(view, host):
    return seen(view)[host]["free_ram_mb"]


def take(view, uuid):
    """Decide for an instance of 2048 MB on h1, and remember it."""
    spec = a_request(memory_mb=2048, force_hosts=["h1"])
    with view.current(1e9) as hosts:
        decision = decide(hosts.working_copy(), Request(spec, [uuid]), Plan())
    view.consume(decision, spec)


def there(view, host):
    return sorted(seen(view)[host]["instances"])


def test_what_is_pushed_is_seen_at_once(cloud, view):
    deliver(view, write(cloud, "h1", ["u1"], free_ram_mb=77, metrics='[{"name": "a"}]'))
    found = seen(view)["h1"]
    assert (found["free_ram_mb"], found["metrics"]) == (77, [{"name": "a"}])
    assert (sorted(found["instances"]), free(view, "h2")) == (["u1"], 65024)
    assert seen(view) == seen(_read(cloud))
    deliver(view, write(cloud, "h1"))
    assert (there(view, "h1"), free(view, "h1")) == ([], 65024)


def test_nothing_is_taken_before_the_first_reading(cloud):
    found = HostView(cloud)
    deliver(found, write(cloud, "h1", free_ram_mb=77))
    assert (len(found._hosts), found._nodes.generations) == (0, {})
    found.refresh()
    assert free(found, "h1") == 77


def test_what_has_been_overtaken_is_ignored(cloud, view):
    first, second = (write(cloud, "h1", [f"u{n}"], free_ram_mb=n) for n in (1, 2))
    deliver(view, second)
    before = seen(view)
    for message in (first, second):
        deliver(view, message)
        assert seen(view) == before
    assert (there(view, "h1"), free(view, "h1")) == (["u2"], 2)


def test_a_push_makes_the_view_no_younger(cloud):
    view = HostView(cloud)
    view.refresh()
    write(cloud, "h2", free_ram_mb=5)
    deliver(view, write(cloud, "h1", free_ram_mb=6))
    assert (free(view, "h1"), free(view, "h2")) == (6, 65024)
    with view.current() as hosts:
        assert hosts.get(hosts.row_of("h2", "h2"), "free_ram_mb") == 5


def test_a_node_that_is_gone_does_not_come_back_by_an_older_push(cloud, view):
    older = write(cloud, "h1", ["u1"], free_ram_mb=1)
    gone = delete(cloud, "h1")
    deliver(view, gone)
    assert sorted(seen(view)) == ["h2"]
    deliver(view, older)
    view.refresh()
    deliver(view, older)
    assert sorted(seen(view)) == ["h2"]
    # Its agent is back, with the same row.
    deliver(view, write(cloud, "h1", ["u1"], free_ram_mb=3))
    assert (free(view, "h1"), there(view, "h1")) == (3, ["u1"])
    deliver(view, gone)
    assert free(view, "h1") == 3


def test_a_node_that_was_gone_before_the_last_complete_reading_does_not_come_back(cloud, view):
    older = write(cloud, "h1")
    delete(cloud, "h1")
    age(cloud, view, [older])
    reload(view)
    deliver(view, older)
    assert sorted(seen(view)) == ["h2"]


def test_the_end_of_an_unknown_node_is_no_error(cloud, view):
    write(cloud, "h3")
    deliver(view, delete(cloud, "h3"))
    assert sorted(seen(view)) == ["h1", "h2"]


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_a_node_that_is_replaced(cloud, view, order):
    messages = [delete(cloud, "h1"), write(cloud, "h1", ["u1"], uuid=a_uuid("new"), vcpus=5)]
    for number in order:
        deliver(view, messages[number])
    assert (seen(view)["h1"]["vcpus_total"], there(view, "h1")) == (5, ["u1"])
    assert seen(view) == seen(_read(cloud))


def test_a_node_that_was_taken_for_its_successor_is_put_right_by_the_next_reading(cloud, view):
    messages = [write(cloud, "h1", free_ram_mb=1), delete(cloud, "h1")]
    messages.append(write(cloud, "h1", uuid=a_uuid("new"), free_ram_mb=3))
    for number in (2, 0, 1):
        deliver(view, messages[number])
    view.refresh()
    assert free(view, "h1") == 3
    assert seen(view) == seen(_read(cloud))


def test_what_was_taken_from_a_node_is_not_taken_from_its_successor(cloud, view):
    take(view, "u1")
    before = write(cloud, "h1", free_ram_mb=1)
    shift([before], -5)
    deliver(view, before)
    assert free(view, "h1") == 65024 - 2048
    delete(cloud, "h1")
    deliver(view, write(cloud, "h1", uuid=a_uuid("new"), free_ram_mb=2))
    assert (free(view, "h1"), there(view, "h1")) == (2, ["u1"])


def test_a_new_node_of_a_known_service_is_like_others(cloud, view):
    cloud.write(lambda c: aggregates.create(c, "a", ["h3"], {}))
    view.set_trust({"h3": "trusted"})
    view.refresh()
    deliver(view, write(cloud, "h3", ["u1"]))
    found = seen(view)["h3"]
    assert (found["cell_uuid"], found["unserved"], found["trust_level"]) == ("c1", False, "trusted")
    assert [each.name for each in found["aggregates"]] == ["a"]


def test_a_new_node_of_an_unknown_service_is_read_together_with_that(cloud, view, caplog):
    serve(cloud, "h5")
    deliver(view, write(cloud, "h5", ["u1"]))
    assert "h5" not in seen(view)
    view.refresh()
    assert (seen(view)["h5"]["unserved"], there(view, "h5")) == (False, ["u1"])
    assert caplog.text == ""


@pytest.mark.parametrize("complete", [False, True])
def test_what_is_pushed_while_the_database_is_read(cloud, view, complete, caplog):
    pushes = []

    def meanwhile():
        cloud.meanwhile = lambda: None
        deliver(view, write(cloud, "h1", ["u1"], free_ram_mb=7))
        deliver(view, write(cloud, "h3"))
        deliver(view, delete(cloud, "h2"))
        pushes.append(seen(view))

    cloud.meanwhile = meanwhile
    write(cloud, "h1", free_ram_mb=6)
    if complete:
        reload(view)
    else:
        view.refresh()
        # What was read is older than what was pushed.
        assert seen(view) == pushes[0]
    view.refresh()
    assert seen(view) == pushes[0] == seen(_read(cloud))
    assert caplog.text == ""


def test_a_complete_reading_takes_whatever_the_database_says(cloud, view):
    deliver(view, write(cloud, "h1", free_ram_mb=7))
    # As a backup has it.
    execute(cloud, "UPDATE compute_nodes SET free_ram_mb = 5, generation = 1 WHERE host = 'h1'")
    view.refresh()
    assert free(view, "h1") == 7
    reload(view)
    assert (free(view, "h1"), seen(view)["h1"]["generation"]) == (5, 1)
    deliver(view, write(cloud, "h1", free_ram_mb=6))
    assert free(view, "h1") == 6


@pytest.mark.parametrize("stamp", ["updated_at", "created_at"])
def test_a_row_of_the_future_is_not_believed(cloud, view, stamp):
    message = write(cloud, "h1", free_ram_mb=7)
    message["nodes"][0] |= {"updated_at": None, stamp: "2999-12-31T00:00:00"}
    deliver(view, message)
    assert free(view, "h1") == 65024
    deliver(view, write(cloud, "h1", free_ram_mb=6))
    assert free(view, "h1") == 6


def test_a_clock_that_is_a_little_ahead_is_no_reason_to_doubt(cloud, view):
    message = write(cloud, "h1", free_ram_mb=7)
    shift([message], 30)
    deliver(view, message)
    assert free(view, "h1") == 7


def test_instances_count_with_the_row_of_their_node(cloud, view):
    mine, other = write(cloud, "h1", ["u1"]), write(cloud, "h2", ["u2"])
    deliver(view, mine | {"instances": mine["instances"] + other["instances"]})
    assert (there(view, "h1"), there(view, "h2")) == (["u1"], [])


def test_what_a_decision_took_stays_taken_until_a_later_row_is_pushed(cloud, view):
    take(view, "u1")
    before, later = write(cloud, "h1"), write(cloud, "h1", ["u1"], free_ram_mb=100)
    shift([before], -5)
    deliver(view, before)
    assert (free(view, "h1"), there(view, "h1")) == (65024 - 2048, ["u1"])
    shift([later], 5)
    deliver(view, later)
    assert (free(view, "h1"), there(view, "h1")) == (100, ["u1"])
    # The promise was kept: it is gone with the row.
    deliver(view, write(cloud, "h1"))
    assert there(view, "h1") == []


@pytest.mark.parametrize(("later", "free_ram_mb"), [(-0.01, 65024 - 2048), (0.01, 100)])
def test_within_a_second_too_the_later_of_two_counts(cloud, view, later, free_ram_mb):
    take(view, "u1")
    row = view._hosts.row_of("h1", "h1")
    taken = datetime.fromtimestamp(view._hosts.get(row, "updated"), UTC).replace(tzinfo=None)
    pushed = write(cloud, "h1", ["u1"], free_ram_mb=100)
    written = datetime.fromisoformat(pushed["nodes"][0]["updated_at"])
    shift([pushed], (taken - written).total_seconds() + later)
    deliver(view, pushed)
    assert free(view, "h1") == free_ram_mb


def test_a_malformed_push_changes_nothing(cloud, view, caplog):
    message = write(cloud, "h1", ["u1"], free_ram_mb=1)
    message["nodes"] += write(cloud, "h2", free_ram_mb=2)["nodes"]
    message["nodes"][1]["vcpus"] = "many"
    before, known = seen(view), dict(view._nodes.generations)
    with caplog.at_level(logging.INFO):
        ChangesEndpoint(view).nodes_changed({}, agent="h1", **message)
    assert (seen(view), view._nodes.generations) == (before, known)
    assert caplog.text.count("Refused malformed changes that 'h1' pushed: nodes[1].vcpus") == 1


def _read(database):
    found = HostView(database, cell_uuid="c1")
    found.refresh()
    return found


def shift(messages, seconds):
    """Move the stamps of pushes that are on their way."""
    by = timedelta(seconds=seconds)
    for message in messages:
        for row in (*message["nodes"], *message["instances"]):
            row["updated_at"] = (datetime.fromisoformat(row["updated_at"]) + by).isoformat()


def age(database, view, messages, seconds=10):
    """Let time pass: everything so far was that much earlier."""
    for table in ("compute_nodes", "instances"):
        execute(
            database,
            f"UPDATE {table} SET updated_at = strftime('%Y-%m-%d %H:%M:%f000', updated_at, :by)",
            by=f"-{seconds} seconds",
        )
    shift(messages, -seconds)
    view._last.now -= timedelta(seconds=seconds)
    view._read_at -= seconds
    for row in view._hosts.rows():
        view._hosts.set(row, "updated", view._hosts.get(row, "updated") - seconds)
    for node_id in view._nodes.consumed:
        view._nodes.consumed[node_id] -= seconds


HOSTS = st.sampled_from(["h1", "h2", "h3"])
GUESTS = st.sets(st.sampled_from(["u1", "u2"]))
DELIVERIES = st.lists(st.integers(0, 30), max_size=4)
STEPS = st.lists(
    st.tuples(st.just("write"), HOSTS, GUESTS, st.sampled_from(["", "another"]))
    | st.tuples(st.just("write"), HOSTS, GUESTS, st.just(""))
    | st.tuples(st.just("delete"), HOSTS)
    | st.tuples(st.just("deliver"), DELIVERIES)
    | st.tuples(st.just("read"), st.booleans(), DELIVERIES, HOSTS, GUESTS)
    | st.tuples(st.just("age")),
    max_size=14,
)


_REPLACED = ("read", True, [], "h1", {"u1"})


class Play:
    """A database, a view of it, and pushes that come in any order, again or never."""

    def __init__(self, database):
        self.database = database
        self.messages = []
        empty(database)
        save(database, a_node("h1"), a_node("h2"))
        serve(database, "h1", "h2", "h3")
        self.view = HostView(database, cell_uuid="c1", reload_interval=3600)
        self.view.refresh()

    def write(self, host, guests, uuid):
        facts = {"uuid": a_uuid(host + uuid), "free_ram_mb": len(self.messages)}
        self.messages.append(write(self.database, host, guests, **facts))

    def delete(self, host):
        self.messages += filter(None, [delete(self.database, host)])

    def deliver(self, numbers):
        for number in numbers:
            before = self.generations()
            for message in self.messages[number : number + 1]:
                deliver(self.view, message)
            after = self.generations()
            assert all(after.get(node, known) >= known for node, known in before.items())

    def read(self, complete, numbers, host, guests):
        def meanwhile():
            self.database.meanwhile = lambda: None
            self.write(host, guests, "")
            self.deliver([*numbers, len(self.messages) - 1])

        self.database.meanwhile = meanwhile
        (reload if complete else HostView.refresh)(self.view)

    def age(self):
        age(self.database, self.view, self.messages)

    def generations(self):
        found = seen(self.view).values()
        return {each["node_id"]: each["generation"] for each in found}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(STEPS, DELIVERIES)
# A node is deleted and comes back as another one while everything is read; its end is pushed last.
@example([("write", "h1", {"u1"}, ""), ("delete", "h1"), ("age",), _REPLACED], [1])
def test_however_pushes_and_readings_come_the_view_is_what_the_database_has(cloud, steps, last):
    play = Play(cloud)
    for verb, *arguments in steps:
        getattr(play, verb)(*arguments)
    play.view.refresh()
    assert seen(play.view) == seen(_read(cloud))
    # What is delivered once more says nothing new.
    play.deliver(last)
    assert seen(play.view) == seen(_read(cloud))

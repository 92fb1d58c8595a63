# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: of what is pushed and what is read the newest counts."""

import logging
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inventory import aggregates
from scheduler.api.tracking_endpoint import PushEndpoint
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_cache.cache import HostCache
from tests.builders import a_request
from tests.databases import a_node, a_uuid, empty, execute, save, serve
from tests.unit.scheduler.host_cache.interrupted import Interrupted
from tests.unit.scheduler.host_cache.pushing import delete, deliver, seen, write


@pytest.fixture
def cloud(database):
    """Return a database with two living hosts, and services of two that have no node yet."""
    save(database, a_node("h1"), a_node("h2"))
    serve(database, "h1", "h2", "h3", "h4")
    return Interrupted(database.engine)


@pytest.fixture
def cache(cloud):
    """Return a cache that has been read and does not look again by itself."""
    found = HostCache(cloud, cell_uuid="c1", reload_interval=3600)
    found.refresh()
    return found


def reload(cache):
    cache._loaded_at = float("-inf")
    cache.refresh()


def free(cache, host):
    return seen(cache)[host]["free_ram_mb"]


def take(cache, uuid):
    """Decide for an instance of 2048 MB on h1, and remember it."""
    spec = a_request(memory_mb=2048, force_hosts=["h1"])
    with cache.current(1e9) as hosts:
        decision = decide(hosts.working_copy(), Request(spec, [uuid]), Plan())
    cache.consume(decision, spec)


def there(cache, host):
    return sorted(seen(cache)[host]["instances"])


def test_what_is_pushed_is_seen_at_once(cloud, cache):
    deliver(cache, write(cloud, "h1", ["u1"], free_ram_mb=77, metrics='[{"name": "a"}]'))
    found = seen(cache)["h1"]
    assert (found["free_ram_mb"], found["metrics"]) == (77, [{"name": "a"}])
    assert (sorted(found["instances"]), free(cache, "h2")) == (["u1"], 65024)
    assert seen(cache) == seen(_read(cloud))
    deliver(cache, write(cloud, "h1"))
    assert (there(cache, "h1"), free(cache, "h1")) == ([], 65024)


def test_nothing_is_taken_before_the_first_reading(cloud):
    found = HostCache(cloud)
    deliver(found, write(cloud, "h1", free_ram_mb=77))
    assert (len(found._hosts), found._nodes.generations) == (0, {})
    found.refresh()
    assert free(found, "h1") == 77


def test_what_has_been_overtaken_is_ignored(cloud, cache):
    first, second = (write(cloud, "h1", [f"u{n}"], free_ram_mb=n) for n in (1, 2))
    deliver(cache, second)
    before = seen(cache)
    for message in (first, second):
        deliver(cache, message)
        assert seen(cache) == before
    assert (there(cache, "h1"), free(cache, "h1")) == (["u2"], 2)


def test_a_push_makes_the_view_no_younger(cloud):
    cache = HostCache(cloud)
    cache.refresh()
    write(cloud, "h2", free_ram_mb=5)
    deliver(cache, write(cloud, "h1", free_ram_mb=6))
    assert (free(cache, "h1"), free(cache, "h2")) == (6, 65024)
    with cache.current() as hosts:
        assert hosts.get(hosts.row_of("h2", "h2"), "free_ram_mb") == 5


def test_a_node_that_is_gone_does_not_come_back_by_an_older_push(cloud, cache):
    older = write(cloud, "h1", ["u1"], free_ram_mb=1)
    gone = delete(cloud, "h1")
    deliver(cache, gone)
    assert sorted(seen(cache)) == ["h2"]
    deliver(cache, older)
    cache.refresh()
    deliver(cache, older)
    assert sorted(seen(cache)) == ["h2"]
    # Its agent is back, with the same row.
    deliver(cache, write(cloud, "h1", ["u1"], free_ram_mb=3))
    assert (free(cache, "h1"), there(cache, "h1")) == (3, ["u1"])
    deliver(cache, gone)
    assert free(cache, "h1") == 3


def test_a_node_that_was_gone_before_the_last_complete_reading_does_not_come_back(cloud, cache):
    older = write(cloud, "h1")
    delete(cloud, "h1")
    age(cloud, cache, [older])
    reload(cache)
    deliver(cache, older)
    assert sorted(seen(cache)) == ["h2"]


def test_the_end_of_an_unknown_node_is_no_error(cloud, cache):
    write(cloud, "h3")
    deliver(cache, delete(cloud, "h3"))
    assert sorted(seen(cache)) == ["h1", "h2"]


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_a_node_that_is_replaced(cloud, cache, order):
    messages = [delete(cloud, "h1"), write(cloud, "h1", ["u1"], uuid=a_uuid("new"), vcpus=5)]
    for number in order:
        deliver(cache, messages[number])
    assert (seen(cache)["h1"]["vcpus_total"], there(cache, "h1")) == (5, ["u1"])
    assert seen(cache) == seen(_read(cloud))


def test_a_node_that_was_taken_for_its_successor_is_put_right_by_the_next_reading(cloud, cache):
    messages = [write(cloud, "h1", free_ram_mb=1), delete(cloud, "h1")]
    messages.append(write(cloud, "h1", uuid=a_uuid("new"), free_ram_mb=3))
    for number in (2, 0, 1):
        deliver(cache, messages[number])
    cache.refresh()
    assert free(cache, "h1") == 3
    assert seen(cache) == seen(_read(cloud))


def test_what_was_taken_from_a_node_is_not_taken_from_its_successor(cloud, cache):
    take(cache, "u1")
    before = write(cloud, "h1", free_ram_mb=1)
    shift([before], -5)
    deliver(cache, before)
    assert free(cache, "h1") == 65024 - 2048
    delete(cloud, "h1")
    deliver(cache, write(cloud, "h1", uuid=a_uuid("new"), free_ram_mb=2))
    assert (free(cache, "h1"), there(cache, "h1")) == (2, ["u1"])


def test_a_new_node_of_a_known_service_is_like_others(cloud, cache):
    cloud.write(lambda c: aggregates.create(c, "a", ["h3"], {}))
    cache.set_trust({"h3": "trusted"})
    cache.refresh()
    deliver(cache, write(cloud, "h3", ["u1"]))
    found = seen(cache)["h3"]
    assert (found["cell_uuid"], found["unserved"], found["trust_level"]) == ("c1", False, "trusted")
    assert [each.name for each in found["aggregates"]] == ["a"]


def test_a_new_node_of_an_unknown_service_is_read_together_with_that(cloud, cache, caplog):
    serve(cloud, "h5")
    deliver(cache, write(cloud, "h5", ["u1"]))
    assert "h5" not in seen(cache)
    cache.refresh()
    assert (seen(cache)["h5"]["unserved"], there(cache, "h5")) == (False, ["u1"])
    assert caplog.text == ""


@pytest.mark.parametrize("complete", [False, True])
def test_what_is_pushed_while_the_database_is_read(cloud, cache, complete, caplog):
    pushes = []

    def meanwhile():
        cloud.meanwhile = lambda: None
        deliver(cache, write(cloud, "h1", ["u1"], free_ram_mb=7))
        deliver(cache, write(cloud, "h3"))
        deliver(cache, delete(cloud, "h2"))
        pushes.append(seen(cache))

    cloud.meanwhile = meanwhile
    write(cloud, "h1", free_ram_mb=6)
    if complete:
        reload(cache)
    else:
        cache.refresh()
        # What was read is older than what was pushed.
        assert seen(cache) == pushes[0]
    cache.refresh()
    assert seen(cache) == pushes[0] == seen(_read(cloud))
    assert caplog.text == ""


def test_after_a_complete_reading_the_database_is_right_whatever_it_says(cloud, cache):
    deliver(cache, write(cloud, "h1", free_ram_mb=7))
    # As a backup has it.
    execute(cloud, "UPDATE compute_nodes SET free_ram_mb = 5, generation = 1 WHERE host = 'h1'")
    cache.refresh()
    assert free(cache, "h1") == 7
    reload(cache)
    # The row that was pushed may have come while an older one was read: it is read once more.
    assert free(cache, "h1") == 7
    cache.refresh()
    assert (free(cache, "h1"), seen(cache)["h1"]["generation"]) == (5, 1)
    deliver(cache, write(cloud, "h1", free_ram_mb=6))
    assert free(cache, "h1") == 6


@pytest.mark.parametrize("stamp", ["updated_at", "created_at"])
def test_a_row_of_the_future_is_not_believed(cloud, cache, stamp):
    message = write(cloud, "h1", free_ram_mb=7)
    message["nodes"][0] |= {"updated_at": None, stamp: "2999-12-31T00:00:00"}
    deliver(cache, message)
    assert free(cache, "h1") == 65024
    deliver(cache, write(cloud, "h1", free_ram_mb=6))
    assert free(cache, "h1") == 6


def test_a_clock_that_is_a_little_ahead_is_no_reason_to_doubt(cloud, cache):
    message = write(cloud, "h1", free_ram_mb=7)
    shift([message], 30)
    deliver(cache, message)
    assert free(cache, "h1") == 7


def test_instances_count_with_the_row_of_their_node(cloud, cache):
    mine, other = write(cloud, "h1", ["u1"]), write(cloud, "h2", ["u2"])
    deliver(cache, mine | {"instances": mine["instances"] + other["instances"]})
    assert (there(cache, "h1"), there(cache, "h2")) == (["u1"], [])


def test_what_a_decision_took_stays_taken_until_a_later_row_is_pushed(cloud, cache):
    take(cache, "u1")
    before, later = write(cloud, "h1"), write(cloud, "h1", ["u1"], free_ram_mb=100)
    shift([before], -5)
    deliver(cache, before)
    assert (free(cache, "h1"), there(cache, "h1")) == (65024 - 2048, ["u1"])
    shift([later], 5)
    deliver(cache, later)
    assert (free(cache, "h1"), there(cache, "h1")) == (100, ["u1"])
    # The agent has reported it: it is gone with the row.
    deliver(cache, write(cloud, "h1"))
    assert there(cache, "h1") == []


@pytest.mark.parametrize(("later", "free_ram_mb"), [(-0.01, 65024 - 2048), (0.01, 100)])
def test_within_a_second_too_the_later_of_two_counts(cloud, cache, later, free_ram_mb):
    take(cache, "u1")
    row = cache._hosts.row_of("h1", "h1")
    taken = datetime.fromtimestamp(cache._hosts.get(row, "updated"), UTC).replace(tzinfo=None)
    pushed = write(cloud, "h1", ["u1"], free_ram_mb=100)
    written = datetime.fromisoformat(pushed["nodes"][0]["updated_at"])
    shift([pushed], (taken - written).total_seconds() + later)
    deliver(cache, pushed)
    assert free(cache, "h1") == free_ram_mb


def test_a_malformed_push_changes_nothing(cloud, cache, caplog):
    message = write(cloud, "h1", ["u1"], free_ram_mb=1)
    message["nodes"] += write(cloud, "h2", free_ram_mb=2)["nodes"]
    message["nodes"][1]["vcpus"] = "many"
    before, known = seen(cache), dict(cache._nodes.generations)
    with caplog.at_level(logging.INFO):
        PushEndpoint(cache).nodes_changed({}, agent="h1", **message)
    assert (seen(cache), cache._nodes.generations) == (before, known)
    assert caplog.text.count("Refused malformed changes that 'h1' pushed: nodes[1].vcpus") == 1


def _read(database):
    found = HostCache(database, cell_uuid="c1")
    found.refresh()
    return found


def shift(messages, seconds):
    """Move the stamps of pushes that are on their way."""
    by = timedelta(seconds=seconds)
    for message in messages:
        for row in (*message["nodes"], *message["instances"]):
            row["updated_at"] = (datetime.fromisoformat(row["updated_at"]) + by).isoformat()


def age(database, cache, messages, seconds=10):
    """Let time pass: everything so far was that much earlier."""
    for table in ("compute_nodes", "instances"):
        execute(
            database,
            f"UPDATE {table} SET updated_at = strftime('%Y-%m-%d %H:%M:%f000', updated_at, :by)",
            by=f"-{seconds} seconds",
        )
    shift(messages, -seconds)
    cache._last.now -= timedelta(seconds=seconds)
    cache._read_at -= seconds
    for row in cache._hosts.rows():
        cache._hosts.set(row, "updated", cache._hosts.get(row, "updated") - seconds)
    for node_id in cache._nodes.consumed:
        cache._nodes.consumed[node_id] -= seconds


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
    """A database, a cache of it, and pushes that come in any order, again or never."""

    def __init__(self, database):
        self.database = database
        self.messages = []
        empty(database)
        save(database, a_node("h1"), a_node("h2"))
        serve(database, "h1", "h2", "h3")
        self.cache = HostCache(database, cell_uuid="c1", reload_interval=3600)
        self.cache.refresh()

    def write(self, host, guests, uuid):
        facts = {"uuid": a_uuid(host + uuid), "free_ram_mb": len(self.messages)}
        self.messages.append(write(self.database, host, guests, **facts))

    def delete(self, host):
        self.messages += filter(None, [delete(self.database, host)])

    def deliver(self, numbers):
        for number in numbers:
            before = self.generations()
            for message in self.messages[number : number + 1]:
                deliver(self.cache, message)
            after = self.generations()
            assert all(after.get(node, known) >= known for node, known in before.items())

    def read(self, complete, numbers, host, guests):
        def meanwhile():
            self.database.meanwhile = lambda: None
            self.write(host, guests, "")
            self.deliver([*numbers, len(self.messages) - 1])

        self.database.meanwhile = meanwhile
        (reload if complete else HostCache.refresh)(self.cache)

    def age(self):
        age(self.database, self.cache, self.messages)

    def generations(self):
        found = seen(self.cache).values()
        return {each["node_id"]: each["generation"] for each in found}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, DELIVERIES)
# A node is deleted and comes back as another one while everything is read; its end is pushed last.
@example([("write", "h1", {"u1"}, ""), ("delete", "h1"), ("age",), _REPLACED], [1])
def test_however_pushes_and_readings_come_the_view_is_what_the_database_has(cloud, steps, last):
    play = Play(cloud)
    for verb, *arguments in steps:
        getattr(play, verb)(*arguments)
    play.cache.refresh()
    assert seen(play.cache) == seen(_read(cloud))
    # What is delivered once more says nothing new.
    play.deliver(last)
    assert seen(play.cache) == seen(_read(cloud))

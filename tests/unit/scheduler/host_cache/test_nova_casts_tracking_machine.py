# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: however casts, rows, claims and readings come, it ends right."""

from collections.abc import Iterator
from threading import Thread

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from inventory import instances
from inventory.claims import claims
from inventory.claims.types import Claim, ClaimRequest
from inventory.objects.aggregate import Aggregate
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_cache import cache as cache_module
from scheduler.host_cache.cache import HostCache
from scheduler.objects.instance import Instance
from tests.builders import a_request
from tests.databases import a_node, a_uuid, an_instance, empty, execute, save, serve
from tests.unit.scheduler.host_cache.pushing import deliver, write

HOSTS = ("h1", "h2")
UUIDS = ("u1", "u2", "u3")
A_HOST, A_UUID = st.sampled_from(HOSTS), st.sampled_from(UUIDS)
SOME = st.sets(A_UUID)
LONG_AGO = "'2001-01-01 00:00:00.000000'"
LATER = "strftime('%Y-%m-%d %H:%M:%f000', 'now', '+5 seconds')"


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Wait for readings also on a busy machine."""
    monkeypatch.setattr(cache_module, "MISMATCH_TIMEOUT", 30.0)


def there(cache, host):
    """Return the uuids on a host as a decision sees them."""
    with cache.current() as hosts:
        row = hosts.row_of(host, host)
        return set() if row is None else set(hosts.instances.on(row))


def claim(database, uuid, host):
    """Claim as another scheduler does."""
    number = HOSTS.index(host) + 1
    wanted = Claim(uuid, number, host, host, vcpus=1, memory_mb=1, disk_mb=1)
    database.write(
        lambda c: claims.claim(c, ClaimRequest(f"req {uuid} {host}", "d", [wanted], 900))
    )


def send(cache, uuid, host):
    """Decide without claims that an instance goes to a host."""
    spec = a_request(memory_mb=1, force_hosts=[host])
    with cache.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, [uuid]), Plan())
    cache.consume(decision, spec)


class Tracking(RuleBasedStateMachine):
    """A cache, the database, and a simple model of who says what, by host.

    sure is what the cache has to show, besides what may be there as well: what was told of once, or
    sent there, or whose rows have changed unnoticed.
    """

    def __init__(self, database, claiming):
        super().__init__()
        self.database, self.claiming = database, claiming
        empty(database)
        save(database, *(a_node(host, id=number) for number, host in enumerate(HOSTS, 1)))
        serve(database, *HOSTS)
        self.cache = HostCache(database, max_age=3600, reload_interval=3600)
        self.cache.refresh()
        self.rows = {host: set() for host in HOSTS}
        self.sure = {host: set() for host in HOSTS}
        self.maybe = {host: set() for host in HOSTS}
        # Within the same second it is not known who is right.
        self.denied = {host: set() for host in HOSTS}
        # Hosts whose rows have changed unnoticed, until everything is read.
        self.blurred = set()
        # Rows that are gone and still shown: a list that agrees with them is not remembered, and
        # they go when everything is read, until their host tells of them again.
        self.vanished = {host: set() for host in HOSTS}
        self.messages = []

    def sees(self, host, seen):
        """Take it that an agent sees these, and no others."""
        gone = self.rows[host] - seen
        self.rows[host] = set(seen)
        self.sure[host] -= gone
        self.maybe[host] |= gone | seen
        self.believe(host)

    def believe(self, host):
        if host not in self.blurred:
            self.sure[host] |= self.rows[host] - self.denied[host]

    @rule(host=A_HOST, seen=SOME)
    def audit(self, host, seen):
        self.messages.append(write(self.database, host, sorted(seen)))
        self.sees(host, seen)
        self.cache.refresh()

    @rule(host=A_HOST, seen=SOME)
    def audit_unnoticed(self, host, seen):
        rows = [an_instance(uuid) for uuid in sorted(seen)]
        self.database.write(lambda c: instances.replace(c, host, host, rows))
        execute(self.database, "DELETE FROM instances WHERE deleted != 0")
        execute(self.database, f"UPDATE instances SET updated_at = {LONG_AGO}")
        self.blurred.add(host)
        self.vanished[host] |= self.rows[host] - seen
        self.sees(host, seen)

    @rule(number=st.integers(0, 9))
    def deliver(self, number):
        for message in self.messages[number : number + 1]:
            deliver(self.cache, message)

    @rule(host=A_HOST, uuid=A_UUID)
    def place(self, host, uuid):
        if self.claiming:
            claim(self.database, uuid, host)
            for other in HOSTS:
                # A claim replaces the one that the instance had elsewhere; what was told stays.
                if other != host and uuid in self.sure[other] - self.rows[other]:
                    self.sure[other].discard(uuid)
                    self.maybe[other].add(uuid)
        else:
            send(self.cache, uuid, host)
        self.maybe[host].add(uuid)
        self.cache.refresh()

    @rule(host=A_HOST, uuid=A_UUID)
    def update(self, host, uuid):
        self.cache.update_instances(host, [Instance(uuid=uuid)])
        self.sure[host].add(uuid)
        self.denied[host].discard(uuid)

    @rule(host=A_HOST, uuid=A_UUID)
    def delete(self, host, uuid):
        self.cache.delete_instance(host, uuid)
        self.sure[host].discard(uuid)
        self.denied[host].add(uuid)
        self.maybe[host].add(uuid)

    @rule(host=A_HOST, listed=SOME)
    def sync(self, host, listed):
        self.cache.sync_instances(host, sorted(listed))
        self.maybe[host] |= self.sure[host] | listed
        self.denied[host] -= listed
        self.sure[host] = listed - self.vanished[host]
        self.believe(host)

    @rule()
    def reload(self):
        self.cache._loaded_at = float("-inf")
        self.cache.refresh()
        self.blurred.clear()
        for host in HOSTS:
            self.vanished[host].clear()
            self.believe(host)

    @rule(host=A_HOST)
    def look(self, host):
        found = there(self.cache, host)
        assert self.sure[host] <= found
        assert found <= self.sure[host] | self.maybe[host]

    def teardown(self):
        """Whatever was before: who looks and tells once more is believed."""
        truth = {"h1": {"u1"}, "h2": {"u2", "u3"}}
        for host, seen in truth.items():
            write(self.database, host, sorted(seen))
        execute(
            self.database,
            f"UPDATE compute_nodes SET updated_at = {LATER}, generation = generation + 1",
        )
        execute(self.database, "DELETE FROM allocations")
        self.reload()
        for host, seen in truth.items():
            # One of them has no guest.
            self.cache.sync_instances(host, [*seen, "new"])
        for host, seen in truth.items():
            found = there(self.cache, host)
            assert found >= seen | {"new"}
            promised = set() if self.claiming else {*UUIDS}
            assert found <= seen | {"new"} | promised


@pytest.mark.hypothesis
@pytest.mark.parametrize("claiming", [True, False], ids=["claims", "promises"])
def test_whatever_is_told_and_read_the_view_has_it(database, claiming):
    run_state_machine_as_test(
        lambda: Tracking(database, claiming),
        settings=settings(stateful_step_count=20, suppress_health_check=[HealthCheck.too_slow]),
    )


def _casts(cache, number) -> Iterator[None]:
    """Tell one thing after the other, as many threads do at the same time."""
    for turn in range(60):
        host, uuid = HOSTS[turn % 2], UUIDS[(turn + number) % 3]
        aggregate = Aggregate(number, a_uuid(f"a{number}"), "a", [host], {"turn": str(turn)})
        yield cache.update_instances(host, [Instance(uuid=uuid)])
        yield cache.delete_instance(host, uuid)
        yield cache.sync_instances(host, [uuid])
        yield cache.update_aggregates([aggregate])
        yield cache.update_instances("h9", [Instance(uuid=uuid)])
    if number % 2:
        yield cache.delete_aggregate(aggregate)


def test_all_casts_at_once_with_decisions_and_readings(database):
    save(database, *(a_node(host, id=number) for number, host in enumerate(HOSTS, 1)))
    serve(database, *HOSTS)
    cache = HostCache(database, max_age=0.01, reload_interval=0.1)
    errors = []

    def run(work):
        try:
            for _ in work:
                pass
        except Exception as error:
            errors.append(error)

    def ask():
        for turn in range(30):
            send(cache, a_uuid(f"built {turn}"), HOSTS[turn % 2])
            yield

    def audit():
        for turn in range(30):
            deliver(cache, write(database, HOSTS[turn % 2], [UUIDS[turn % 3]]))
            yield

    work = [_casts(cache, number) for number in range(6)] + [ask(), audit()]
    threads = [Thread(target=run, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    cache.refresh()
    for host in HOSTS:
        cache.sync_instances(host, ["u1"])
    with cache.current() as hosts:
        for host in HOSTS:
            row = hosts.row_of(host, host)
            found = {each.id for each in hosts.get(row, "aggregates")}
            assert found == ({0, 2, 4} if host == "h2" else set())
            assert hosts.instances.on(row)["u1"].host == host
            for uuid in hosts.instances.on(row):
                assert row in hosts.instances.rows_of(uuid)

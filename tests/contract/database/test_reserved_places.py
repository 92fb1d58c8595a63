# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reserved places are held, taken and given back, and what is used of a node stays the sum."""

from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import Guest
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes, reservations
from inventory.claims import claims
from inventory.claims.places import FreePlaces
from inventory.claims.types import Claim, ClaimLost, ClaimRequest
from inventory.dialects import utc_moment
from inventory.errors import InUse, Malformed, NotFound
from inventory.operations import reservation_operations, service_operations
from inventory.operations.reservation_operations import NewReservation
from tests.claimed import let_pass
from tests.databases import a_uuid, serve
from tests.fixtures import agent
from tests.records import manage, migrate

SIZE = (4, 4096, 10240)
# Of which two places leave nothing.
LIMITS = {"vcpu": 8.0, "memory_mb": 8192.0, "disk_gb": 40.0}
ONE, TWO, OTHER = a_uuid("one"), a_uuid("two"), a_uuid("other")


class Fleet:
    """A node of alpha and one of beta with room for two places each, and their agents."""

    def __init__(self, database, directory):
        self.database, self.agents = database, {}
        for number, host in enumerate(("alpha", "beta")):
            (directory / host).mkdir()
            options = {"compute_driver": "fake", "host": host, "reserved_host_memory_mb": 0}
            fake = {"vcpus": 8, "memory_mb": 8192, "local_gb": 40}
            conf = agent.options(directory / host, DEFAULT=options, fake=fake)
            driver = FakeDriver(conf)
            self.agents[host] = driver, ResourceTracker(conf, database, driver), {host: number + 1}
            self.audit(host)

    def audit(self, host="alpha"):
        """Audit a host at a time at which all claims are older than what the agent has seen."""
        let_pass(self.database, 30)
        _, tracker, service = self.agents[host]
        tracker.audit(service)

    def start(self, uuid, size=SIZE, host="alpha"):
        vcpus, memory_mb, disk_mb = size
        guest = Guest(uuid, uuid, vcpus, memory_mb, root_gb=disk_mb // 1024)
        self.agents[host][0].add_guest(host, guest)

    def end(self, uuid, host="alpha"):
        self.agents[host][0].remove_guest(host, uuid)

    def used(self, host="alpha"):
        rows = self.database.read(compute_nodes.all_live)
        (row,) = (row for row in rows if row.host == host)
        free = row.memory_mb - row.free_ram_mb, 1024 * row.local_gb - row.free_disk_mb
        assert free == (row.memory_mb_used, row.disk_mb_used)
        return (row.vcpus_used, row.memory_mb_used, row.disk_mb_used), row.claims

    def claim(self, uuid, size=SIZE, host="alpha", place=None, lease=900, project="p1"):
        node, about = self.node(host), {"project_id": project}
        claim = Claim(uuid, node, host, host, *size, limits=LIMITS, about=about, place=place)
        request = ClaimRequest(f"req-{uuid}-{size}", "d", [claim], lease)
        return self.database.write(lambda c: claims.claim(c, request))

    def claim_together(self, *wanted):
        node, about = self.node("alpha"), {"project_id": "p1"}
        requests = [
            ClaimRequest(
                uuid,
                "d",
                [Claim(uuid, node, "alpha", "alpha", *SIZE, LIMITS, about=about, place=each)],
                9,
            )
            for uuid, each in wanted
        ]
        return self.database.write(lambda c: claims.claim_each(c, requests))[0]

    def node(self, host):
        rows = self.database.read(compute_nodes.all_live)
        return next(row.id for row in rows if row.host == host)

    def reserve(
        self, *hosts, name="r", size=SIZE, ends_at=None, project="p1", starts_at=None, after=()
    ):
        """Hold places on hosts, of which the first ones are those that are named in after."""
        places = [
            Claim(
                *(a_uuid(f"{name} {at}"), self.node(host), host, host, *size),
                limits=LIMITS,
                place=after[at] if at < len(after) else None,
            )
            for at, host in enumerate(hosts)
        ]
        new = NewReservation(name, project, size, ends_at=ends_at, starts_at=starts_at)
        request = ClaimRequest(None, "", places, 0)
        self.database.write(lambda c: reservation_operations.create(c, new, request))

    def places(self, name="r"):
        """Return the state, the taker, and what is held by each place, in their order."""
        uuid = self.database.read(lambda c: reservations.show(c, name))["id"]
        rows = self.database.read(lambda c: reservations.places_of(c, [uuid]))
        order = [a_uuid(f"{name} {at}") for at in range(4)]
        return [
            (row.state, row.taken_by, (row.vcpus, row.memory_mb, row.disk_mb))
            for row in sorted(rows, key=lambda row: order.index(row.instance_uuid))
        ]

    def free(self, project="p1"):
        found = self.database.read(lambda c: FreePlaces.read(c, [project])).of(project)
        return [each.uuid for each in found]

    def now(self):
        return self.database.read(lambda c: c.execute(sa.select(utc_moment())).scalar_one())


P = [a_uuid(f"r {number}") for number in range(4)]
FREE = ("reserved", None, SIZE)


@pytest.fixture
def fleet(database, tmp_path):
    return Fleet(database, tmp_path)


def times(number, size=SIZE):
    return tuple(number * each for each in size)


def test_places_are_used_room_and_no_claims_of_instances(fleet):
    fleet.reserve("alpha", "alpha")
    for _ in range(2):
        assert fleet.used() == (times(2), 0)
        fleet.audit()
    assert fleet.free() == [P[0], P[1]]
    assert fleet.free("p2") == []
    with pytest.raises(ClaimLost):
        fleet.claim(OTHER)


def test_nothing_is_reserved_unless_all_places_fit(fleet):
    with pytest.raises(ClaimLost):
        fleet.reserve("alpha", "beta", "alpha", "alpha")
    assert fleet.used() == fleet.used("beta") == (times(0), 0)
    assert fleet.database.read(reservations.listed) == []


def test_an_instance_in_a_place_takes_nothing_more_and_gives_it_back(fleet):
    fleet.reserve("alpha", "alpha")
    fleet.claim(ONE, place=P[0])
    assert fleet.used() == (times(2), 1)
    assert fleet.places() == [("waiting", ONE, (0, 0, 0)), FREE]
    fleet.start(ONE)
    for _ in range(2):
        fleet.audit()
        assert fleet.used() == (times(2), 0)
        assert fleet.places() == [("waiting", ONE, (0, 0, 0)), FREE]
    fleet.end(ONE)
    fleet.audit()
    assert fleet.used() == (times(2), 0)
    assert fleet.places() == [FREE, FREE]


def test_a_place_holds_what_it_has_more_than_its_instance(fleet):
    small = (1, 1024, 2048)
    fleet.reserve("alpha", "alpha")
    fleet.claim(ONE, small, place=P[0])
    for _ in range(2):
        assert fleet.places()[0] == ("waiting", ONE, (3, 3072, 8192))
        assert fleet.used()[0] == times(2)
        fleet.start(ONE, small)
        fleet.audit()
    # The agent counts what the guest has, which has grown beyond its place.
    fleet.end(ONE)
    fleet.start(ONE, (5, 1024, 10240))
    fleet.audit()
    assert fleet.places()[0] == ("waiting", ONE, (0, 3072, 0))
    assert fleet.used()[0] == (9, 8192, 20480)


@pytest.mark.parametrize("how", ["released", "lost", "expired", "replaced"])
def test_a_claim_that_ends_gives_its_place_back(fleet, how):
    fleet.reserve("alpha", "alpha")
    fleet.claim(ONE, place=P[0])
    if how == "released":
        fleet.database.write(lambda c: claims.release(c, [ONE]))
    elif how == "lost":
        fleet.database.write(lambda c: claims.release_lost(c, {("alpha", ONE)}))
    elif how == "expired":
        let_pass(fleet.database, 1000)
        fleet.audit()
    else:
        fleet.claim(ONE, (3, 4096, 10240), host="beta")
        assert fleet.used("beta") == ((3, 4096, 10240), 1)
    assert fleet.places() == [FREE, FREE]
    assert fleet.used() == (times(2), 0)


def test_a_claim_may_take_the_place_that_it_replaces_the_claim_of(fleet):
    fleet.reserve("alpha", "alpha")
    for size, left in ((SIZE, (0, 0, 0)), ((1, 96, 240), (3, 4000, 10000))):
        fleet.claim(ONE, size, place=P[0])
        assert fleet.places() == [("waiting", ONE, left), FREE]
        assert fleet.used() == (times(2), 1)


@pytest.mark.parametrize("together", [False, True])
def test_a_place_is_taken_once(fleet, together):
    fleet.reserve("alpha", "alpha")
    if together:
        first, second = fleet.claim_together((ONE, P[0]), (TWO, P[0]))
        assert first.answers == [None]
        assert isinstance(second, ClaimLost)
        # Who has lost has changed nothing.
        first, second = fleet.claim_together((TWO, P[1]), (OTHER, P[0]))
        assert isinstance(second, ClaimLost)
    else:
        fleet.claim(ONE, place=P[0])
        with pytest.raises(ClaimLost) as raised:
            fleet.claim(TWO, place=P[0])
        assert raised.value.nodes == {fleet.node("alpha")}
        fleet.claim(TWO, place=P[1])
    assert [(state, by) for state, by, _ in fleet.places()] == [("waiting", ONE), ("waiting", TWO)]
    assert fleet.used() == (times(2), 2)


def test_a_place_is_taken_once_where_there_is_room_besides(fleet):
    fleet.reserve("alpha")
    fleet.claim(ONE, place=P[0])
    with pytest.raises(ClaimLost, match="a reserved place is taken or has ended"):
        fleet.claim(TWO, place=P[0])
    assert fleet.places() == [("waiting", ONE, (0, 0, 0))]
    assert fleet.used() == (SIZE, 1)


@pytest.mark.parametrize(
    "wanted",
    [{"host": "beta"}, {"size": (4, 4097, 1)}, {"place": a_uuid("nothing")}],
    ids=["elsewhere", "too large", "unknown"],
)
def test_a_place_is_taken_only_where_it_is_and_if_it_is_large_enough(fleet, wanted):
    fleet.reserve("alpha")
    with pytest.raises(ClaimLost, match="place is taken or has ended"):
        fleet.claim(ONE, **{"place": P[0]} | wanted)
    assert fleet.places() == [FREE]


def test_a_reservation_ends_by_its_time(fleet):
    fleet.reserve("alpha", "alpha", ends_at=fleet.now() + timedelta(hours=1))
    fleet.claim(ONE, place=P[0])
    fleet.start(ONE)
    fleet.audit()
    let_pass(fleet.database, 3600)
    assert fleet.free() == []
    with pytest.raises(ClaimLost, match="place is taken or has ended"):
        fleet.claim(TWO, place=P[1])
    fleet.audit()
    # The instance stays where it is, as any other.
    assert fleet.used() == (SIZE, 0)
    assert fleet.places() == []
    fleet.end(ONE)
    fleet.audit()
    assert fleet.used() == (times(0), 0)


def test_a_reservation_is_extended_before_it_ends(fleet):
    later = fleet.now() + timedelta(hours=2)
    fleet.reserve("alpha", ends_at=fleet.now() + timedelta(hours=1))
    extend = reservation_operations.extend
    fleet.database.write(lambda c: extend(c, "r", later))
    assert fleet.database.read(reservations.listed)[0]["until"] == f"{later:%Y-%m-%d %H:%M:%S}"
    let_pass(fleet.database, 3700)
    fleet.audit()
    assert fleet.places() == [FREE]
    with pytest.raises(Malformed, match="is not later than"):
        fleet.database.write(lambda c: extend(c, "r", fleet.now()))
    past = sa.text("UPDATE reservations SET ends_at = '2020-01-01 00:00:00.000000'")
    fleet.database.write(lambda c: c.execute(past))
    with pytest.raises(InUse, match="reservation r has ended"):
        fleet.database.write(lambda c: extend(c, "r", later))
    assert fleet.database.read(reservations.listed)[0]["state"] == "ended"


def test_what_cannot_be_reserved_or_extended_is_refused(fleet):
    fleet.reserve("alpha")
    with pytest.raises(InUse, match="there is a reservation 'r' already"):
        fleet.reserve("beta", name="R")
    with pytest.raises(Malformed, match=r"until: .* is in the past"):
        fleet.reserve("beta", name="s", ends_at=datetime(2020, 1, 1))
    with pytest.raises(InUse, match="reservation r has no end"):
        fleet.database.write(lambda c: reservation_operations.extend(c, "r", datetime(2099, 1, 1)))
    for work in (reservations.show, lambda c, name: reservation_operations.delete(c, [name])):
        with pytest.raises(NotFound, match="no reservation 'other'; see 'reservation list'"):
            fleet.database.write(lambda c, work=work: work(c, "other"))
    assert fleet.used("beta") == (times(0), 0)


def test_deleting_a_reservation_gives_back_what_it_holds(fleet):
    fleet.reserve("alpha", "alpha")
    fleet.claim(ONE, (1, 1024, 1024), place=P[0])
    (gone,) = fleet.database.write(lambda c: reservation_operations.delete(c, ["r"]))
    assert (gone["name"], gone["free"], gone["taken"]) == ("r", 1, 1)
    assert fleet.used() == ((1, 1024, 1024), 1)
    assert fleet.database.read(reservations.projects) == frozenset()
    # Its claim has no place to give back.
    fleet.database.write(lambda c: claims.release(c, [ONE]))
    assert fleet.used() == (times(0), 0)


def test_an_instance_that_moves_gives_back_the_place_that_it_leaves(fleet):
    fleet.reserve("alpha", "alpha", "beta", "beta")
    fleet.claim(ONE, place=P[0])
    fleet.start(ONE)
    fleet.audit()
    fleet.claim(ONE, host="beta", place=P[2])
    fleet.start(ONE, host="beta")
    fleet.audit("beta")
    taken = ("waiting", ONE, (0, 0, 0))
    assert fleet.places() == [taken, FREE, taken, FREE]
    fleet.end(ONE)
    fleet.audit()
    assert fleet.places() == [FREE, FREE, taken, FREE]
    assert fleet.used() == fleet.used("beta") == (times(2), 0)


def test_a_place_waits_until_a_move_from_it_is_confirmed(fleet):
    fleet.reserve("alpha", "alpha")
    fleet.claim(ONE, place=P[0])
    fleet.start(ONE)
    fleet.audit()
    manage(fleet.database, ONE, "beta", "beta", vm_state="resized")
    migrate(
        fleet.database,
        ONE,
        "alpha",
        "beta",
        source_node="alpha",
        old_vcpus=4,
        old_memory_mb=4096,
        old_disk_mb=10240,
    )
    fleet.end(ONE)
    fleet.audit()
    # It may come back.
    assert fleet.places() == [("waiting", ONE, (0, 0, 0)), FREE]
    assert fleet.used()[0] == times(2)
    ended = sa.text("UPDATE migrations SET status = 'confirmed'")
    fleet.database.write(lambda c: c.execute(ended))
    fleet.audit()
    assert fleet.places() == [FREE, FREE]


@pytest.mark.parametrize("with_place", [False, True])
def test_an_instance_that_is_resized_in_its_place_keeps_one(fleet, with_place):
    small = (1, 1024, 1024)
    fleet.reserve("alpha", size=small)
    fleet.reserve("alpha", name="s")
    large = a_uuid("s 0")
    fleet.claim(ONE, small, place=P[0])
    fleet.start(ONE, small)
    fleet.audit()
    both = tuple(map(sum, zip(small, SIZE, strict=True)))
    if with_place:
        fleet.claim(ONE, SIZE, place=large)
        assert fleet.places("s") == [("waiting", ONE, (0, 0, 0))]
        used = both
    else:
        used = tuple(map(sum, zip(both, (3, 1024, 1024), strict=True)))
        fleet.claim(ONE, (3, 1024, 1024))
    assert fleet.used() == (used, 1)
    fleet.audit()
    assert fleet.used() == (used, 1)
    fleet.end(ONE)
    fleet.start(ONE, SIZE if with_place else (3, 1024, 1024))
    fleet.audit()
    if with_place:
        assert fleet.places() == [("reserved", None, small)]
        assert fleet.places("s") == [("waiting", ONE, (0, 0, 0))]
        assert fleet.used() == (both, 0)
    else:
        assert fleet.places() == [("waiting", ONE, (0, 0, 0))]


def test_a_release_of_places_releases_nothing(fleet):
    fleet.reserve("alpha")
    assert fleet.database.write(lambda c: claims.release(c, [P[0]])) == []
    assert fleet.places() == [FREE]


def test_a_host_with_places_is_deleted_only_if_it_is_lost(fleet):
    serve(fleet.database, "alpha")
    fleet.reserve("alpha", "beta")
    silent = sa.text("UPDATE services SET last_seen_up = NULL, created_at = NULL")
    fleet.database.write(lambda c: c.execute(silent))
    with pytest.raises(InUse, match="host alpha holds places of r: delete these reservations"):
        fleet.database.write(lambda c: service_operations.delete(c, ["alpha"], 60))
    assert fleet.places() == [FREE, FREE]
    fleet.database.write(lambda c: service_operations.delete(c, ["alpha"], 60, forget_guests=True))
    assert fleet.places() == [FREE]
    assert fleet.database.read(lambda c: reservations.show(c, "r"))["number"] == 2

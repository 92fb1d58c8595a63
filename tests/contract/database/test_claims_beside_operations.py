# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims that were decided before an order of an operator, which says what may go to a host."""

from contextlib import closing

import pytest

from inventory import compute_nodes, services
from inventory.claims import claims
from inventory.claims.types import Claim, ClaimLost, ClaimRequest
from inventory.errors import InUse
from inventory.operations import aggregate_operations, service_operations
from inventory.operations.aggregate_operations import Change, ZoneRules
from inventory.revisions import ELIGIBILITY
from tests.claimed import claimed
from tests.databases import a_node, a_uuid, open_at, save, serve

UUID = a_uuid("u1")
ZONES = ZoneRules("nova", with_instances=True)


def changing(aggregate, **change):
    return lambda c: aggregate_operations.change(c, aggregate, Change(**change), ZONES)


def adding(host, aggregate="zone"):
    return lambda c: aggregate_operations.add_hosts(c, aggregate, [host], ZONES)


def closing_itself(connection):
    row = services.find(connection, "h1", "nova-compute")
    services.disable_automatically(connection, [row.id], "its libvirt does not answer")


# All bear upon h1, which is in the aggregate "fast" and in none that is a zone.
CONCERNING = {
    "a zone": adding("h1"),
    "out of an aggregate": lambda c: aggregate_operations.remove_hosts(c, "fast", ["h1"], ZONES),
    "a property": changing("fast", properties={"ssd": "true"}),
    "no property": changing("fast", without=["cpu"]),
    "a zone by its aggregate": changing("fast", properties={"availability_zone": "z2"}),
    "disabled": lambda c: service_operations.disable(c, ["h1"]),
    "maintenance": lambda c: service_operations.begin_maintenance(c, ["h1"]),
    "forced down": lambda c: service_operations.force_down(c, ["h1"]),
    "disabled by its agent": closing_itself,
    # Whether h1 is open to the project depends on whether any host is set aside for it.
    "another host for a project": changing("other", properties={"filter_tenant_id": "p1"}),
}
UNRELATED = {
    "another host": adding("h2"),
    "a property": changing("other", properties={"ssd": "true"}),
    "another service": lambda c: service_operations.disable(c, ["h2"]),
    "a new aggregate": lambda c: aggregate_operations.create(c, "new", {"availability_zone": "z3"}),
}


@pytest.fixture
def hosts(database):
    """Return a database with two hosts and aggregates "zone", "fast" with h1, "other" with h2."""
    save(database, a_node("h1"), a_node("h2"))
    serve(database, "h1", "h2")
    for name, key in (("zone", "availability_zone"), ("fast", "cpu"), ("other", "cpu")):
        database.write(lambda c, n=name, k=key: aggregate_operations.create(c, n, {k: "z1"}))
    database.write(adding("h1", "fast"))
    database.write(adding("h2", "other"))
    return database


def decided(database):
    """Return what claims h1 by what is known of it now."""
    (row,) = database.read(lambda c: compute_nodes.of_hosts(c, ["h1"]))
    claim = Claim(
        instance_uuid=UUID,
        node_id=row.id,
        host="h1",
        node=row.hypervisor_hostname,
        vcpus=1,
        memory_mb=1,
        disk_mb=0,
        known={ELIGIBILITY: row.eligibility_revision},
    )
    return ClaimRequest("req-1", "any", [claim], 900)


@pytest.mark.parametrize("order", CONCERNING.values(), ids=CONCERNING)
def test_a_claim_is_not_made_by_what_was_so_before_an_order(hosts, order):
    wanted = decided(hosts)
    hosts.write(order)
    with pytest.raises(ClaimLost, match="other rules") as lost:
        hosts.write(lambda c: claims.claim(c, wanted))
    # These are read again before the next decision.
    assert lost.value.nodes == {wanted.claims[0].node_id}
    assert claimed(hosts) == {}


@pytest.mark.parametrize("order", UNRELATED.values(), ids=UNRELATED)
def test_an_order_for_other_hosts_costs_nothing(hosts, order):
    wanted = decided(hosts)
    hosts.write(order)
    hosts.write(lambda c: claims.claim(c, wanted))
    assert claimed(hosts) == {UUID: "pending"}


def test_what_says_nothing_new_costs_nothing(hosts):
    hosts.write(lambda c: service_operations.disable(c, ["h1"], "for a while"))
    wanted = decided(hosts)
    hosts.write(lambda c: service_operations.disable(c, ["h1"], "for a while"))
    hosts.write(lambda c: claims.claim(c, wanted))


def test_a_claim_does_not_slip_past_an_order_of_its_own_moment(hosts, url, monkeypatch):
    if hosts.engine.dialect.name == "sqlite":
        return  # It has one writer at a time.
    wanted, lock = decided(hosts), claims.LockedNodes

    def late(*arguments):
        monkeypatch.undo()
        with closing(open_at(url)) as other:
            other.write(adding("h1"))
        return lock(*arguments)

    monkeypatch.setattr(claims, "LockedNodes", late)
    with pytest.raises(ClaimLost, match="other rules"):
        hosts.write(lambda c: claims.claim(c, wanted))
    assert claimed(hosts) == {}


def test_an_order_does_not_slip_past_a_claim(hosts):
    wanted = decided(hosts)
    hosts.write(lambda c: claims.claim(c, wanted))
    with pytest.raises(InUse):
        hosts.write(lambda c: aggregate_operations.add_hosts(c, "zone", ["h1"], ZoneRules("nova")))
    assert claimed(hosts) == {UUID: "pending"}

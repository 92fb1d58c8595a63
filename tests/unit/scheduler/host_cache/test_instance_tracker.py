# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache.instance_tracker: an instance is where anybody says that it is."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.host_cache import assumed
from scheduler.host_cache.instance_tracker import InstanceTracker
from scheduler.host_cache.refresh_queries import Delta
from scheduler.hosts.row_index import InstanceIndex
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance
from tests.databases import a_uuid
from tests.unit.scheduler.host_cache.allocation_rows import an_instance_row

NOW = 1_000_000.0
SHELVED = {"vm_state": "shelved_offloaded"}


def node_id(host, node):
    """Return a number that is always the same for a node."""
    return int(a_uuid(f"{host} {node}")[:7], 16)


def moment(after):
    return datetime.fromtimestamp(NOW + after, UTC).replace(tzinfo=None)


def a_node_row(host, node, at=0):
    ours = {"id": node_id(host, node), "deleted": 0, "created_at": None}
    return SimpleNamespace(host=host, hypervisor_hostname=node, updated_at=moment(at), **ours)


def a_claim_row(host, node, **facts):
    ordinary = {"vm_state": "building", "compute_node_id": node_id(host, node)}
    return an_instance_row(**{"host": host, "node": node} | ordinary | facts)


class Cloud:
    """A table of nodes with what says where instances are; times are seconds after NOW."""

    def __init__(self, *nodes):
        self.hosts = HostTable()
        self.tracker = InstanceTracker(self.hosts)
        self.add(*nodes)

    def add(self, *nodes):
        for host, node in nodes:
            row = self.hosts.add(host, node)
            self.hosts.set(row, "node_id", node_id(host, node))
        self.tracker.rewrite({host for host, _ in nodes})

    def remove(self, host, node):
        self.hosts.remove(self.hosts.row_of(host, node))
        self.tracker.rewrite([host])

    def audit(self, host, *seen, node=None, at=0, gone=(), claimed=(), complete=False):
        """Read what an audit of a node wrote: these instances, given by uuid or as facts."""
        node = host if node is None else node
        facts = [{"uuid": each} if isinstance(each, str) else each for each in seen]
        facts += [{"uuid": each, "deleted": 1} for each in gone]
        place = {"host": host, "node": node}
        changes = Delta(complete, moment(at))
        changes.instances = [an_instance_row(**each, **place) for each in facts]
        changes.nodes = [a_node_row(host, node, at)]
        changes.claims = [
            a_claim_row(host, node, **({"uuid": each} if isinstance(each, str) else each))
            for each in claimed
        ]
        self.tracker.read(changes, NOW + at)

    def claim(self, host, uuid, node=None, **facts):
        row = self.hosts.row_of(host, host if node is None else node)
        self.tracker.add_claim(row, Instance(uuid=uuid, **facts))

    def assume(self, host, uuid, node=None, at=0, **facts):
        row = self.hosts.row_of(host, host if node is None else node)
        known = self.hosts.instances.on(row).get(uuid)
        self.hosts.instances.add(row, uuid, Instance(uuid=uuid, **facts))
        self.tracker.assume(row, uuid, known, NOW + at)

    def forget(self, host, uuid):
        self.tracker.forget(host, uuid)

    def instance(self, host, uuid, node=None):
        node = host if node is None else node
        return self.hosts.instances.on(self.hosts.row_of(host, node))[uuid]

    def on(self, host, node=None):
        return sorted(self.hosts.instances.on(self.hosts.row_of(host, node or host)))


@pytest.fixture
def cloud():
    return Cloud(("h1", "h1"), ("h2", "h2"))


def test_reported_claimed_and_assumed_instances_are_all_there(cloud):
    cloud.audit("h1", "u1", claimed=["u2"])
    cloud.assume("h1", "u3")
    assert (cloud.on("h1"), cloud.on("h2")) == (["u1", "u2", "u3"], [])
    cloud.audit("h1", "u1", claimed=["u2"], complete=True)
    assert cloud.on("h1") == ["u1", "u2", "u3"]


def test_what_was_claimed_stays_known_when_an_agent_reports_less(cloud):
    cloud.claim("h1", "u1", instance_type_id=7, image_properties={"a": "1"})
    cloud.audit("h1", {"uuid": "u1", "vcpus": 3})
    cloud.audit("h1", {"uuid": "u1", "vcpus": 3}, complete=True)
    found = cloud.instance("h1", "u1")
    assert (found.vcpus, found.instance_type_id, found.image_properties) == (3, 7, {"a": "1"})
    cloud.audit("h1", {"uuid": "u1", "vcpus": 4})
    found = cloud.instance("h1", "u1")
    assert (found.vcpus, found.instance_type_id) == (4, 7)


def test_what_a_request_said_stays_known_when_the_instance_has_arrived(cloud):
    cloud.assume("h1", "u1", instance_type_id=7, flavor_name="m1.small")
    for complete in (False, True):
        cloud.audit("h1", {"uuid": "u1", "flavor_name": "m1.small"}, complete=complete)
        found = cloud.instance("h1", "u1")
        assert (found.instance_type_id, found.vcpus) == (7, 1)


def test_what_was_known_stays_known_when_the_instance_is_sent_to_the_same_host(cloud):
    cloud.audit("h1", {"uuid": "u1", "project_id": "p9"})
    cloud.assume("h1", "u1", instance_type_id=7)
    found = cloud.instance("h1", "u1")
    assert (found.project_id, found.instance_type_id) == ("p9", 7)


def test_an_assumed_instance_outlives_its_node_with_all_that_is_known(cloud):
    cloud.assume("h1", "u1", instance_type_id=7)
    cloud.remove("h1", "h1")
    cloud.add(("h1", "h1"))
    assert cloud.instance("h1", "u1").instance_type_id == 7


def test_the_newest_source_counts(cloud):
    cloud.audit("h1", {"uuid": "u1", "vcpus": 1})
    cloud.assume("h1", "u1", vcpus=2)
    assert cloud.instance("h1", "u1").vcpus == 2
    # The row is read again, but says nothing new.
    cloud.audit("h1", {"uuid": "u1", "vcpus": 1}, complete=True)
    assert cloud.instance("h1", "u1").vcpus == 2
    cloud.audit("h1", {"uuid": "u1", "vcpus": 3})
    assert cloud.instance("h1", "u1").vcpus == 3


def test_a_complete_reading_shows_what_is_gone(cloud):
    cloud.audit("h1", "u1", "u2")
    cloud.audit("h2", "u3", complete=True)
    assert (cloud.on("h1"), cloud.on("h2")) == ([], ["u3"])


DELETED = {"vm_state": "deleted"}


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(
    ("state", "there"),
    [
        (SHELVED, False),
        (SHELVED | {"task_state": "spawning"}, True),
        (SHELVED | {"task_state": "unshelving"}, False),
        (DELETED, False),
        ({"vm_state": "soft-delete"}, True),
        ({"vm_state": "error"}, True),
    ],
)
def test_an_instance_that_has_released_its_host_is_not_on_it(cloud, complete, state, there):
    # Behaviour reference of compute hosts, 2.4.
    cloud.audit("h1", "u1", "u2")
    cloud.audit("h1", {"uuid": "u1", **state}, "u2", complete=complete)
    assert cloud.on("h1") == ["u1", "u2"] if there else ["u2"]
    cloud.audit("h1", "u1", "u2", complete=complete)
    assert cloud.on("h1") == ["u1", "u2"]


def test_released_instances_do_not_stand_in_for_those_that_are_gone(cloud):
    cloud.audit("h1", "u1", "u2")
    cloud.audit("h1", "u1", {"uuid": "u3", **DELETED}, complete=True)
    assert cloud.on("h1") == ["u1"]


def test_the_end_of_a_row_that_was_never_read_is_no_error(cloud):
    cloud.assume("h1", "u1")
    cloud.audit("h1", gone=["u1", "u9"])
    assert cloud.on("h1") == ["u1"]


def test_the_end_of_an_unknown_instance_is_no_error(cloud):
    cloud.forget("h1", "u9")
    cloud.forget("h9", "u1")
    cloud.audit("h1", "u9", at=10)
    assert cloud.on("h1") == ["u9"]


def test_an_instance_that_was_deleted_while_it_was_built_is_no_longer_expected(cloud):
    cloud.assume("h1", "u1")
    cloud.forget("h2", "u1")
    cloud.tracker.rewrite(["h1"])
    assert cloud.on("h1") == ["u1"]
    cloud.forget("h1", "u1")
    assert cloud.on("h1") == []


def test_an_instance_that_was_deleted_is_there_while_rows_say_so(cloud):
    cloud.audit("h1", "u1", claimed=["u2"])
    for uuid in ("u1", "u2"):
        cloud.assume("h1", uuid)
        cloud.forget("h1", uuid)
    assert cloud.on("h1") == ["u1", "u2"]
    cloud.audit("h1", gone=["u1"])
    assert cloud.on("h1") == []


def test_an_instance_that_was_built_is_promised_no_longer(cloud, monkeypatch):
    monkeypatch.setattr(assumed, "LIFETIME", 10.0)
    cloud.assume("h1", "u1", instance_type_id=7)
    cloud.audit("h1", {"uuid": "u1", "vm_state": "active"})
    cloud.audit("h1", {"uuid": "u1", "vm_state": "active"}, at=100)
    found = cloud.instance("h1", "u1")
    assert (found.instance_type_id, found.vm_state) == (7, "active")
    cloud.audit("h1", gone=["u1"])
    assert cloud.on("h1") == []


def test_an_instance_that_was_built_elsewhere_is_expected_there_no_longer(cloud):
    cloud.assume("h1", "u1")
    cloud.audit("h2", "u1")
    assert (cloud.on("h1"), cloud.on("h2")) == ([], ["u1"])


def test_an_instance_that_moves_is_expected_while_its_old_host_reports_it(cloud):
    cloud.audit("h1", "u1")
    cloud.assume("h2", "u1")
    cloud.audit("h1", "u1")
    assert (cloud.on("h1"), cloud.on("h2")) == (["u1"], ["u1"])
    cloud.audit("h2", "u1")
    cloud.audit("h1", gone=["u1"])
    assert (cloud.on("h1"), cloud.on("h2")) == ([], ["u1"])


def test_a_promise_that_is_never_kept_runs_out(cloud, monkeypatch):
    monkeypatch.setattr(assumed, "LIFETIME", 10.0)
    cloud.assume("h1", "u1")
    cloud.audit("h2", at=9)
    assert cloud.on("h1") == ["u1"]
    cloud.audit("h2", at=10)
    assert cloud.on("h1") == []


def test_rows_of_an_unknown_host_show_when_it_appears(cloud):
    cloud.audit("h3", "u1", node="n1")
    cloud.audit("h3", "u2", node="n2")
    cloud.add(("h3", "n1"))
    assert cloud.on("h3", "n1") == ["u1"]
    cloud.remove("h3", "n1")
    cloud.add(("h3", "n1"), ("h3", "n2"))
    assert (cloud.on("h3", "n1"), cloud.on("h3", "n2")) == (["u1"], ["u2"])


def test_the_names_of_hosts_are_told_apart_by_case(cloud):
    cloud.add(("H1", "H1"))
    cloud.audit("H1", "u1")
    assert (cloud.on("h1"), cloud.on("H1")) == ([], ["u1"])


def test_an_instance_is_on_the_node_of_its_host_that_somebody_names():
    cloud = Cloud(("h1", "n1"), ("h1", "n2"))
    cloud.audit("h1", "u1", node="n2", claimed=["u2"])
    cloud.assume("h1", "u3", node="n1")
    assert (cloud.on("h1", "n1"), cloud.on("h1", "n2")) == (["u3"], ["u1", "u2"])
    cloud.audit("h1", "u3", node="n2")
    assert (cloud.on("h1", "n1"), cloud.on("h1", "n2")) == ([], ["u1", "u3"])


def test_the_rows_of_a_host_that_is_read_again_are_all_there_are(cloud):
    cloud.audit("h1", "u1", "u2")
    cloud.audit("h2", "u3")
    changes = Delta(complete=False, now=moment(20), hosts=["h1"])
    changes.instances = [an_instance_row("u2"), an_instance_row("u5")]
    cloud.tracker.read(changes, NOW)
    assert (cloud.on("h1"), cloud.on("h2")) == (["u2", "u5"], ["u3"])


def counting(monkeypatch, owner, name):
    """Return a list that grows with each call of a method."""
    calls, method = [], getattr(owner, name)

    def counted(self, *arguments):
        calls.append(name)
        return method(self, *arguments)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_one_instance_of_a_service_with_many_nodes_costs_a_look_at_its_node(monkeypatch):
    cloud = Cloud(*(("h1", f"n{number}") for number in range(40)))
    looks = counting(monkeypatch, HostTable, "get")
    cloud.claim("h1", "u1", node="n20")
    cloud.audit("h1", "u1", node="n20")
    cloud.audit("h1", "u2", node="n30")
    assert len(looks) < 40
    assert cloud.on("h1", "n20") == ["u1"]
    assert cloud.on("h1", "n30") == ["u2"]


def test_many_instances_of_a_host_are_written_at_once(cloud, monkeypatch):
    uuids = [f"u{number}" for number in range(50)]
    changes = counting(monkeypatch, InstanceIndex, "change")
    cloud.audit("h1", *uuids)
    assert len(changes) == 1
    cloud.audit("h1", gone=uuids)
    assert len(changes) == 2
    assert cloud.on("h1") == []


def test_what_is_claimed_on_a_node_is_replaced_with_its_row(cloud):
    cloud.audit("h1", claimed=["u1", {"uuid": "u2", "flavor_id": 7, "vcpus": 4}])
    cloud.audit("h2", claimed=["u1"])
    assert (cloud.on("h1"), cloud.on("h2")) == (["u1", "u2"], ["u1"])
    found = cloud.instance("h1", "u2")
    assert (found.instance_type_id, found.vcpus, found.vm_state) == (7, 4, "building")
    cloud.audit("h1", claimed=[{"uuid": "u2", "flavor_id": 8, "vcpus": 2}])
    assert (cloud.on("h1"), cloud.on("h2")) == (["u2"], ["u1"])
    assert cloud.instance("h1", "u2").instance_type_id == 8
    cloud.audit("h1")
    assert cloud.on("h1") == []


def test_an_instance_that_is_claimed_for_and_seen_is_one(cloud):
    cloud.claim("h1", "u1", instance_type_id=7)
    cloud.audit("h1", {"uuid": "u1", "vm_state": "active"}, claimed=[{"uuid": "u1", "vcpus": 9}])
    assert cloud.on("h1") == ["u1"]
    found = cloud.instance("h1", "u1")
    # As it was seen; what only the claim says is known as well.
    assert (found.vm_state, found.vcpus, found.instance_type_id) == ("active", 1, 7)
    cloud.audit("h1", {"uuid": "u1", "vm_state": "active"})
    assert cloud.instance("h1", "u1").vm_state == "active"
    # It is going to be resized there.
    cloud.audit("h1", claimed=[{"uuid": "u1", "vcpus": 9}])
    assert cloud.instance("h1", "u1").vm_state == "active"
    cloud.audit("h1", gone=["u1"], claimed=["u1"])
    assert cloud.on("h1") == ["u1"]
    cloud.audit("h1")
    assert cloud.on("h1") == []


def test_what_was_claimed_here_holds_until_the_node_is_read(cloud):
    cloud.claim("h1", "u1", project_id="p9")
    assert cloud.instance("h1", "u1").project_id == "p9"
    cloud.audit("h2")
    assert cloud.on("h1") == ["u1"]
    cloud.audit("h1")
    assert cloud.on("h1") == []


def test_claims_on_a_node_that_is_gone_are_gone_with_it(cloud):
    cloud.audit("h1", claimed=["u1"])
    cloud.remove("h1", "h1")
    row = cloud.hosts.add("h1", "h1")
    cloud.hosts.set(row, "node_id", 5)
    cloud.tracker.rewrite(["h1"])
    assert cloud.on("h1") == []
    cloud.hosts.set(row, "node_id", node_id("h1", "h1"))
    cloud.tracker.rewrite(["h1"])
    assert cloud.on("h1") == ["u1"]
    # A complete reading leaves nothing behind.
    cloud.remove("h1", "h1")
    cloud.audit("h2", complete=True)
    cloud.add(("h1", "h1"))
    assert cloud.on("h1") == []


def test_claims_on_a_dead_node_are_none(cloud):
    changes = Delta(complete=False, nodes=[a_node_row("h1", "h1")])
    changes.nodes[0].deleted = 1
    changes.claims = [a_claim_row("h1", "h1", uuid="u1")]
    cloud.tracker.read(changes, NOW)
    assert cloud.on("h1") == []


HOSTS = st.sampled_from(["h1", "h2"])
UUIDS = st.sampled_from(["u1", "u2", "u3"])
STEPS = st.lists(
    st.tuples(st.just("audit"), HOSTS, st.sets(UUIDS), st.none() | st.sets(UUIDS))
    | st.tuples(st.sampled_from(["claim", "assume", "forget"]), HOSTS, UUIDS, st.none()),
    max_size=20,
)


class Model:
    """The same as sets of (host, uuid)."""

    def __init__(self):
        self.reported, self.claimed = set(), set()
        # Where each instance was sent, and where it was before.
        self.assumed = {}

    def there(self, host):
        said = self.reported | self.claimed
        said |= {(place, uuid) for uuid, (place, _) in self.assumed.items()}
        return sorted(uuid for place, uuid in said if place == host)

    def audit(self, host, seen, claimed=()):
        for places, new in ((self.reported, seen), (self.claimed, claimed)):
            places -= {each for each in places if each[0] == host}
            places |= {(host, uuid) for uuid in new}
        for uuid in seen:
            if uuid in self.assumed and host not in self.assumed[uuid][1]:
                del self.assumed[uuid]

    def claim(self, host, uuid):
        self.claimed.add((host, uuid))

    def forget(self, host, uuid):
        if uuid in self.assumed and self.assumed[uuid][0] == host:
            del self.assumed[uuid]

    def assume(self, host, uuid):
        before = {place for place in ("h1", "h2") if uuid in self.there(place)}
        older = {self.assumed[uuid][0]} if uuid in self.assumed else set()
        self.assumed[uuid] = (host, before - older - {host})


@given(STEPS)
def test_an_instance_is_exactly_where_somebody_says(steps):
    cloud, model, reported = Cloud(("h1", "h1"), ("h2", "h2")), Model(), {"h1": set(), "h2": set()}
    for verb, host, what, claimed in steps:
        if verb != "audit":
            getattr(cloud, verb)(host, what)
            getattr(model, verb)(host, what)
        elif claimed is None:
            # A complete reading has the rows of all nodes.
            reported[host] = what
            _read_everything(cloud, reported)
            for each, seen in reported.items():
                model.audit(each, seen)
        else:
            gone = reported[host] - what
            reported[host] = what
            cloud.audit(host, *what, gone=gone, claimed=claimed)
            model.audit(host, what, claimed)
        for each in ("h1", "h2"):
            assert cloud.on(each) == model.there(each)


def _read_everything(cloud, reported):
    changes = Delta(complete=True, now=moment(0))
    for host, seen in reported.items():
        changes.instances += [an_instance_row(uuid, host=host, node=host) for uuid in seen]
        changes.nodes.append(a_node_row(host, host))
    cloud.tracker.read(changes, NOW)

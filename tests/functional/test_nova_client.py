# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's own client calls the running scheduler: instances that are built, casts, versions."""

from typing import Any
from uuid import uuid4

import pytest

from tests.fixtures.nova_client import SECRETS, NovaClient, NovaFailure, a_whole_spec
from tests.fixtures.nova_cloud import CAPS, CELL, NovaCloud, hosts_of, uuids
from tests.unit.scheduler.wire import wire_samples

NOVA_ZONES = {"plain": 32, "numa": 4, "pci": 4, "loose": 5}
NOT_ENOUGH = "There are not enough hosts available."


def test_an_instance_is_booted(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    zone, (uuid,) = nova_cloud.zone(), uuids(1)
    result = nova_cloud.ask(nova, [uuid], {"availability_zone": zone.name})
    (host,) = hosts_of(result)
    assert host in zone.hosts
    assert nova_cloud.claims(uuid) == {host: "pending"}
    if not nova.knows_objects:
        limits = {"vcpu": 16, "memory_mb": 65536, "disk_gb": 1000}
        assert result["answer"] == [{"host": host, "nodename": host, "limits": limits}]


def test_a_selection_is_whole(nova_cloud: NovaCloud, newest_nova: NovaClient) -> None:
    zone, (uuid,) = nova_cloud.zone(), uuids(1)
    # There is room for so many of them that some may be held for builds that fail.
    spec = {"availability_zone": zone.name, "flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1}}
    result = nova_cloud.ask(newest_nova, [uuid], spec)
    ((chosen, *alternates),) = result["answer"]
    assert len({each["service_host"] for each in (chosen, *alternates)}) == 3
    for each in (chosen, *alternates):
        host = each["service_host"]
        limits = {"vcpu": 16, "memory_mb": 65536, "disk_gb": 1000}
        assert host in zone.hosts
        assert each == {
            "version": "1.1",
            "service_host": host,
            "nodename": host,
            "compute_node_uuid": nova_cloud.node_uuid(host),
            "cell_uuid": CELL,
            "limits": limits | {"numa_topology": None},
            "allocation_request": None,
            "allocation_request_version": None,
            "availability_zone": zone.name,
            "to_dict": {"host": host, "nodename": host, "limits": limits},
        }


def test_builds_that_fail_are_tried_on_the_alternates(
    nova_cloud: NovaCloud, newest_nova: NovaClient
) -> None:
    zone, three = nova_cloud.zone(), uuids(3)
    spec = {"availability_zone": zone.name, "num_instances": 3}
    result = nova_cloud.ask(newest_nova, three, spec, build=True)
    for selections, build in zip(result["answer"], result["builds"], strict=True):
        hosts = [each["service_host"] for each in selections]
        assert build["tried"] == [
            {
                "host": host,
                "node": host,
                "claims_in_placement": False,
                "limits": ["disk_gb", "memory_mb", "vcpu"],
                "zone": zone.name,
            }
            for host in hosts
        ]
        assert build["retry"] == [[host, host] for host in hosts]
        assert "Exceeded maximum number of retries" in build["end"]


def test_several_instances_are_placed_in_their_order(
    nova_cloud: NovaCloud, nova: NovaClient
) -> None:
    zone, three = nova_cloud.zone(), uuids(3)
    # Each of them fills most of a host.
    spec = {"availability_zone": zone.name, "flavor": {"vcpus": 12}, "num_instances": 3}
    result = nova_cloud.ask(nova, three, spec)
    hosts = hosts_of(result)
    assert len({*hosts} & {*zone.hosts}) == 3
    # The accounts know which of them were named; these have their claims where the answer says.
    named = three if nova.cap in ("", "4.4") else three[:1]
    assert [nova_cloud.claims(each) for each in named] == [
        {h: "pending"} for h in hosts[: len(named)]
    ]
    if nova.knows_objects:
        # There is room for one more: nothing is held for builds that may fail.
        assert [len(found) for found in result["answer"]] == [1, 1, 1]
    assert nova_cloud.refuses(nova, uuids(2), spec)


def test_guests_with_pinned_cpus(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    zone = nova_cloud.zone("numa")
    special, *_ = zone.hosts
    extra_specs = {"hw:cpu_policy": "dedicated", "hw:numa_nodes": "1"}
    spec = {"availability_zone": zone.name, "flavor": {"vcpus": 6, "extra_specs": extra_specs}}
    for uuid in uuids(2):
        topology = nova_cloud.numa_topology(special)
        result = nova_cloud.ask(nova, [uuid], spec, numa_host=topology)
        assert hosts_of(result) == [special]
        # Nova's compute host comes to the same conclusion.
        assert result["fits"]
        (answer,) = result["answer"]
        limits = answer[0]["limits"] if nova.knows_objects else answer["limits"]
        assert limits["numa_topology"] == {"cpu": 1.0, "ram": 1.0}
    # Each cell has two CPUs left.
    assert nova_cloud.refuses(nova, uuids(1), spec)


def test_guests_with_devices(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    zone, extra_specs = nova_cloud.zone("pci"), {"pci_passthrough:alias": "nic:1"}
    spec = {"availability_zone": zone.name, "flavor": {"extra_specs": extra_specs}}
    assert nova_cloud.boot(nova, uuids(1), **spec) == zone.hosts[:1]
    assert nova_cloud.refuses(nova, uuids(1), spec)
    # A port of a network that no card is on.
    assert nova_cloud.refuses(nova, uuids(1), {**spec, "flavor": {}, "ports": ["physnet9"]})


def test_what_only_placement_allocates_is_refused(
    nova_cloud: NovaCloud, newest_nova: NovaClient
) -> None:
    # Nova's conductor would look for it in the allocation that we have none of.
    group = {"requester_id": str(uuid4()), "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}}
    spec = {"availability_zone": nova_cloud.zone().name, "port_resources": [group]}
    assert nova_cloud.refuses(newest_nova, uuids(1), spec)


def test_a_forced_host_is_not_questioned(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    zone = nova_cloud.zone()
    forced, *_ = zone.hosts
    spec = {"force_hosts": [forced], "force_nodes": [forced], "flavor": {"vcpus": 17}}
    assert nova_cloud.boot(nova, uuids(1), **spec) == [forced]
    assert nova_cloud.refuses(nova, uuids(1), spec | {"ignore_hosts": [forced.upper()]})
    assert nova_cloud.refuses(nova, uuids(1), spec | {"force_hosts": ["unknown"]})


def test_a_requested_host_is_questioned(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    zone = nova_cloud.zone()
    _, _, wanted, _ = zone.hosts
    spec: dict[str, Any] = {"destination": {"host": wanted, "node": wanted}}
    assert nova_cloud.boot(nova, uuids(1), **spec) == [wanted]
    assert nova_cloud.refuses(nova, uuids(1), spec | {"flavor": {"vcpus": 17}})
    assert nova_cloud.boot(nova, uuids(1), destination={"node": wanted}) == [wanted]
    assert nova_cloud.refuses(nova, uuids(1), {"destination": {"host": "unknown"}})


def test_no_valid_host_is_the_exception_of_nova(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    three = uuids(3)
    with pytest.raises(NovaFailure) as caught:
        nova_cloud.ask(nova, three, {"availability_zone": "unknown", "num_instances": 3})
    failure = caught.value
    assert (failure.caught_as, failure.class_name) == ("NoValidHost", "NoValidHost_Remote")
    assert failure.message == f"No valid host was found. {NOT_ENOUGH}"
    assert failure.kwargs == {"reason": NOT_ENOUGH, "code": 500}


def test_what_is_malformed_is_refused_with_an_exception_of_nova(
    nova_cloud: NovaCloud, nova: NovaClient
) -> None:
    with pytest.raises(NovaFailure, match=r"vcpus: -1 is not between") as caught:
        nova_cloud.ask(nova, uuids(1), {"flavor": {"vcpus": -1}})
    assert (caught.value.caught_as, caught.value.class_name) == (
        "NovaException",
        "InvalidInput_Remote",
    )
    assert caught.value.kwargs["code"] == 400


def test_a_spec_with_everything_is_served(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    zone, (uuid,) = nova_cloud.zone(), uuids(1)
    tried, ignored, *free = zone.hosts
    spec = a_whole_spec(CELL, zone.name, tried, ignored)
    assert nova_cloud.boot(nova, [uuid], **spec)[0] in free
    # The logs that are searched for secrets are those in which this request is.
    logs = "".join(each.log.read_text() for each in nova_cloud.schedulers)
    assert uuid in logs
    assert "DEBUG" in logs


def test_zones(nova_cloud: NovaCloud, newest_nova: NovaClient) -> None:
    loose = nova_cloud.zone("loose")
    spec = {"availability_zone": "nova", "force_hosts": loose.hosts[:1]}
    ((chosen,),) = nova_cloud.ask(newest_nova, uuids(1), spec)["answer"]
    # Hosts that no aggregate gives a zone are in the default one.
    assert chosen["availability_zone"] == "nova"


def test_aggregates_that_the_api_tells_of(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    loose = nova_cloud.zone("loose")
    first, second, *_ = loose.hosts
    name, uuid = f"announced {loose.name}", str(uuid4())
    spec = {"availability_zone": name}
    metadata = {"availability_zone": name}
    aggregate = {"id": 100, "uuid": uuid, "name": name, "hosts": [first], "metadata": metadata}
    assert nova_cloud.refuses(nova, uuids(1), spec)
    for host in (first, second):
        found = [aggregate | {"hosts": [host]}]
        nova_cloud.cast(nova, "update_aggregates", "update_aggregates: 1", aggregates=found)
        assert nova_cloud.boot(nova, uuids(1), **spec) == [host]
    ended = f"Received delete_aggregate: {uuid}"
    nova_cloud.cast(nova, "delete_aggregate", ended, aggregate=aggregate)
    assert nova_cloud.refuses(nova, uuids(1), spec)


def test_instances_that_hosts_tell_of(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    zone, (named, other, uuid) = nova_cloud.zone(), uuids(3)
    host, *_ = zone.hosts
    spec = {"group": {"uuid": str(uuid4()), "members": [uuid]}, "destination": {"host": host}}
    here, secret = f"_info of {host}", {"uuid": named, "user_data": SECRETS["user data"]}
    assert nova_cloud.boot(nova, [uuid], **spec) == [host]
    casts: list[tuple[str, str, dict[str, Any]]] = [
        ("update_instance_info", here, {"instances": [secret]}),
        ("delete_instance_info", f"{here}: instance ", {"instance_uuid": named}),
        ("sync_instance_info", f"{here}: 2 instances", {"instance_uuids": [named, other]}),
    ]
    for cast, expected, words in casts:
        nova_cloud.cast(nova, cast, expected, host_name=host, **words)
        # The claim says where it is, whatever its host reports.
        assert nova_cloud.refuses(nova, uuids(1), spec)
    nova_cloud.loses(nova, uuid, host)


def test_what_every_service_answers(nova: NovaClient) -> None:
    arg = {"now": [1, "a"]}
    assert nova.ask("ping", arg=arg) == {"service": "scheduler", "arg": arg}
    assert nova.ask("get_backdoor_port", host="first") is None


@pytest.mark.parametrize("cap", CAPS[1:])
def test_objects_are_not_to_be_had_under_a_cap(nova_cloud: NovaCloud, cap: str) -> None:
    asked = {"return_objects": True, "return_alternates": True}
    with pytest.raises(NovaFailure) as caught:
        nova_cloud.ask(nova_cloud.clients[cap], uuids(1), {}, **asked)
    assert caught.value.class_name == "SelectionObjectsWithOldRPCVersionNotSupported"


@pytest.mark.parametrize("cap", ["pike", "ocata", "kilo", "4.0", "4.5"])
def test_caps_as_operators_write_them(
    nova_cloud: NovaCloud, newest_nova: NovaClient, cap: str
) -> None:
    newest_nova.ask("cap", version=cap)
    try:
        asked = {"return_objects": False, "return_alternates": False}
        zone = nova_cloud.zone()
        result = nova_cloud.ask(newest_nova, uuids(1), {"availability_zone": zone.name}, **asked)
        assert hosts_of(result)[0] in zone.hosts
        instances = {"host_name": "unknown", "instance_uuids": []}
        if cap == "4.0":
            with pytest.raises(NovaFailure, match="RPCVersionCapError"):
                newest_nova.ask("sync_instance_info", **instances)
        else:
            newest_nova.ask("sync_instance_info", **instances)
    finally:
        newest_nova.ask("cap", version=None)


def test_an_object_that_is_too_new_would_be_taken_to_the_conductor(
    nova_cloud: NovaCloud, newest_nova: NovaClient
) -> None:
    """The accounts of all tests rely on it."""
    known = wire_samples.primitive("obj_selection")
    assert newest_nova.ask("receive", primitive=known, timeout=1)["version"] == "1.1"
    with pytest.raises(NovaFailure) as caught:
        newest_nova.ask("receive", primitive=known | {"nova_object.version": "1.2"}, timeout=1)
    assert caught.value.caught_as == "MessagingTimeout"
    (heard,) = nova_cloud.conductor.heard()
    assert "object_backport_versions" in heard

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is claimed is allocated in a real Placement, once, and what it refuses is not claimed."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from inventory import compute_nodes
from inventory.engine import Database
from inventory.nova.placement import PlacementClient
from inventory.nova.placement_errors import PlacementUnavailable
from inventory.objects.instance_group import InstanceGroup
from inventory.objects.standby import EXTRA_SPEC
from inventory.operations import service_operations
from inventory.tables import allocations as claims_table
from inventory.tables import standbys as standbys_table
from scheduler.claims.allocator import UNKNOWN_TO_PLACEMENT, Allocator
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer
from scheduler.claims.standby_keeper import StandbyKeeper
from scheduler.decision.pipeline import Plan
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters import BaseHostFilter
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.ram import RamFilter
from scheduler.host_cache.cache import HostCache
from scheduler.objects.request_spec import Destination
from scheduler.objects.selection import Selection
from scheduler.request_filters import REQUEST_FILTERS
from scheduler.select_destinations.destinations import Destinations
from scheduler.weighers.ram import RAMWeigher
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request
from tests.databases import a_node, save, serve
from tests.fixtures.placement import Placement

HOSTS = ("h1", "h2", "h3")
# MB; the first host has most free memory by our table, so it is chosen first.
MEMORY = {"h1": 8192, "h2": 6144, "h3": 4096}
FLAVOR = {"vcpus": 1, "memory_mb": 2048, "root_gb": 0}
FILTERS = (ComputeFilter(), RamFilter(), CoreFilter())
PROTECTED = {EXTRA_SPEC: "required"}
DISABLED, AVX2 = "COMPUTE_STATUS_DISABLED", "HW_CPU_X86_AVX2"


class Cloud:
    """Three hosts, in our database and as providers of Placement, and schedulers for them."""

    def __init__(self, database: Database, client: PlacementClient) -> None:
        self.database = database
        self.client = client
        self.nodes = {host: str(uuid4()) for host in HOSTS}
        for host, uuid in self.nodes.items():
            node = {"name": f"{host}-{uuid}", "uuid": uuid}
            self.ask("POST", "/resource_providers", node)
            self.give(host, {"VCPU": {"total": 16}, "MEMORY_MB": {"total": MEMORY[host]}})
        nodes = [
            a_node(
                host,
                uuid=uuid,
                memory_mb=MEMORY[host],
                memory_mb_used=0,
                free_ram_mb=MEMORY[host],
                initial_ram_allocation_ratio=1.0,
            )
            for host, uuid in self.nodes.items()
        ]
        save(database, *nodes)
        serve(database, *HOSTS)

    def ask(self, method: str, path: str, document: Mapping[str, Any]) -> None:
        self.client.session.request(method, path, document)

    def generation(self, uuid: str) -> int:
        return next(each.generation for each in self.client.providers() if each.uuid == uuid)

    def give(self, host: str, inventories: Mapping[str, Any]) -> None:
        """Set the inventories of a host's provider in Placement."""
        uuid = self.nodes[host]
        document = {"resource_provider_generation": self.generation(uuid)}
        path = f"/resource_providers/{uuid}/inventories"
        self.ask("PUT", path, {**document, "inventories": inventories})

    def mark(self, host: str, *traits: str) -> None:
        """Set the traits of a host's provider in Placement."""
        uuid = self.nodes[host]
        document = {"resource_provider_generation": self.generation(uuid), "traits": traits}
        self.ask("PUT", f"/resource_providers/{uuid}/traits", document)

    def scheduler(
        self,
        client: PlacementClient | None = None,
        required: bool = True,
        filters: Sequence[BaseHostFilter] = FILTERS,
        max_candidates: int = 1000,
    ) -> Destinations:
        """Return a scheduler with a host cache of its own."""
        settings = ClaimSettings(attempts=10, alternates=False)
        request_filters = [each() for each in REQUEST_FILTERS]
        return Destinations(
            self.database,
            HostCache(self.database),
            FilterScheduler(Plan(filters, [RAMWeigher()], request_filters=request_filters)),
            claimer=Claimer(self.database, settings),
            allocator=Allocator(client or self.client, required, max_candidates),
        )

    def claimed(self) -> dict[str, str]:
        """Return the host of each claim by its instance."""
        rows = self.database.read(lambda each: each.execute(sa.select(claims_table)).all())
        return {row.instance_uuid: row.host for row in rows}

    def used(self, host: str) -> tuple[int, int, int]:
        """Return the vCPUs, MB of memory and GB of disk that our row counts as used."""
        rows = self.database.read(compute_nodes.all_live)
        (row,) = (row for row in rows if row.host == host)
        return row.vcpus_used, row.memory_mb_used, row.local_gb_used

    def allocated(self) -> dict[str, str]:
        """Return the host of each allocation by its instance."""
        return {
            consumer: host
            for host, uuid in self.nodes.items()
            for consumer in self.client.allocations_of(uuid)
        }

    def standbys(self) -> dict[str, str | None]:
        """Return the host of each standby by its instance, None where it has none."""
        names = {row.id: row.host for row in self.database.read(compute_nodes.all_live)}
        rows = self.database.read(lambda each: each.execute(sa.select(standbys_table)).all())
        return {row.instance_uuid: names.get(row.compute_node_id) for row in rows}


@pytest.fixture
def cloud(placement: Placement, database: Database, tmp_path: Path) -> Iterator[Cloud]:
    client = placement.client(tmp_path)
    yield Cloud(database, client)
    client.close()


def uuids(count: int) -> list[str]:
    return [str(uuid4()) for _ in range(count)]


def ask(
    scheduler: Destinations, *instances: str, request: str = "req-1", **changes: Any
) -> list[list[Selection]]:
    arguments = SelectArguments(a_request(**{**FLAVOR, **changes}), [*instances], True, True)
    return scheduler.select(arguments, RequestContext(request_id=request))


def hosts_of(answer: Sequence[Sequence[Selection]]) -> list[str]:
    return [first.service_host for first, *_ in answer]


def test_what_is_answered_is_claimed_and_allocated(cloud: Cloud) -> None:
    instances = uuids(2)
    answer = ask(cloud.scheduler(), *instances)
    assert (
        cloud.allocated() == cloud.claimed() == dict(zip(instances, hosts_of(answer), strict=True))
    )
    (first, *alternates), _ = answer
    request = {cloud.nodes["h1"]: {"resources": {"VCPU": 1, "MEMORY_MB": 2048}}}
    assert json.loads(first.allocation_request or "")["allocations"] == request
    assert first.allocation_request_version == "1.36"
    assert [each.service_host for each in alternates] == ["h2", "h3"]
    for each in alternates:
        found = json.loads(each.allocation_request or "")
        assert found["allocations"].keys() == {cloud.nodes[each.service_host]}


class Counting:
    """A client that keeps what is asked with it."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._client, name)


def test_placement_is_asked_no_more_than_needed(cloud: Cloud) -> None:
    client: Any = Counting(cloud.client)
    ask(cloud.scheduler(client), *uuids(2))
    assert client.asked == ["post_allocations"]
    cloud.mark("h3", AVX2)
    client.asked.clear()
    wanted = {"extra_specs": {f"trait:{AVX2}": "required"}}
    ask(cloud.scheduler(client), *uuids(1), request="req-2", **wanted)
    assert client.asked == ["allocation_candidates", "post_allocations"]


def test_computes_that_say_nothing_of_secrets_get_tpms_until_others_do(cloud: Cloud) -> None:
    tpm = ("COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS")
    cloud.mark("h3", *tpm)
    wanted = {"extra_specs": {"hw:tpm_version": "2.0"}}
    (first, second) = uuids(2)
    ask(cloud.scheduler(), first, **wanted)
    assert cloud.allocated() == {first: "h3"}
    cloud.mark("h2", *tpm, "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER")
    ask(cloud.scheduler(), second, request="req-2", **wanted)
    assert cloud.allocated() == {first: "h3", second: "h2"}


def test_a_repeated_request_has_the_same_answer_and_no_second_allocation(cloud: Cloud) -> None:
    (instance,) = uuids(1)
    first = ask(cloud.scheduler(), instance)
    assert ask(cloud.scheduler(), instance) == first
    assert cloud.allocated() == {instance: "h1"}


def test_a_scheduler_that_died_after_its_claim_is_made_good_by_the_repetition(cloud: Cloud) -> None:
    (instance,) = uuids(1)
    first = ask(cloud.scheduler(), instance)
    cloud.client.delete_allocations(instance)
    assert ask(cloud.scheduler(), instance) == first
    assert cloud.allocated() == {instance: "h1"}


def test_a_host_that_is_full_in_placement_is_passed_over(cloud: Cloud) -> None:
    cloud.give("h1", {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 1024}})
    (instance,) = uuids(1)
    answer = ask(cloud.scheduler(), instance)
    assert hosts_of(answer) == ["h2"]
    assert [each.service_host for each in answer[0][1:]] == ["h3"]
    assert cloud.allocated() == cloud.claimed() == {instance: "h2"}


def test_no_room_in_placement_leaves_neither_claim_nor_allocation(cloud: Cloud) -> None:
    for host in HOSTS:
        cloud.give(host, {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 1024}})
    with pytest.raises(NoValidHost):
        ask(cloud.scheduler(), *uuids(1))
    assert cloud.allocated() == cloud.claimed() == {}


def test_several_instances_get_all_or_nothing(cloud: Cloud) -> None:
    """There is room for nine by our table, and for five in Placement."""
    cloud.give("h2", {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 2048}})
    cloud.give("h3", {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 1024}})
    with pytest.raises(NoValidHost):
        ask(cloud.scheduler(), *uuids(9))
    assert cloud.allocated() == cloud.claimed() == {}
    instances = uuids(4)
    answer = ask(cloud.scheduler(), *instances, request="req-2")
    placed = dict(zip(instances, hosts_of(answer), strict=True))
    assert cloud.allocated() == cloud.claimed() == placed


def test_schedulers_that_race_never_allocate_more_than_there_is(cloud: Cloud) -> None:
    """There is room for nine."""
    schedulers = [cloud.scheduler() for _ in range(3)]
    instances = uuids(14)

    def one(number: int) -> str | None:
        try:
            (host,) = hosts_of(ask(schedulers[number % 3], instances[number], request=f"r{number}"))
        except NoValidHost:
            return None
        return host

    with ThreadPoolExecutor(7) as pool:
        found = dict(zip(instances, pool.map(one, range(14)), strict=True))
    placed = {uuid: host for uuid, host in found.items() if host}
    assert len(placed) == 9
    assert cloud.allocated() == cloud.claimed() == placed


def test_an_evacuated_instance_keeps_what_it_has(cloud: Cloud) -> None:
    (instance,) = uuids(1)
    ask(cloud.scheduler(), instance)
    answer = ask(cloud.scheduler(), instance, request="req-2", ignore_hosts=["h1"])
    assert hosts_of(answer) == ["h2"]
    found = cloud.client.allocations_for(instance).resources
    assert found.keys() == {cloud.nodes["h1"], cloud.nodes["h2"]}


@pytest.mark.matrix
def test_a_protected_instance_is_evacuated_and_allocated_to_its_standby(cloud: Cloud) -> None:
    """Placement is told of the instance alone, so only we keep the room of its standby free."""
    (instance,) = uuids(1)
    ask(cloud.scheduler(), instance, extra_specs=PROTECTED)
    assert cloud.allocated() == {instance: "h1"}
    assert cloud.standbys() == {instance: "h2"}
    for number in range(7):
        ask(cloud.scheduler(), *uuids(1), request=f"other-{number}")
    with pytest.raises(NoValidHost):
        ask(cloud.scheduler(), *uuids(1), request="one too many")
    allocated = cloud.allocated()
    assert len(allocated) == 8
    cloud.database.write(lambda each: service_operations.force_down(each, ["h1"], True))
    with pytest.raises(NoValidHost):
        ask(cloud.scheduler(), *uuids(1), request="another one")
    moved = {"extra_specs": PROTECTED, "ignore_hosts": ["h1"]}
    assert hosts_of(ask(cloud.scheduler(), instance, request="req-2", **moved)) == ["h2"]
    found = cloud.client.allocations_for(instance).resources
    assert found.keys() == {cloud.nodes["h1"], cloud.nodes["h2"]}
    assert cloud.allocated() == {**allocated, instance: "h2"}


@pytest.mark.matrix
def test_no_standby_is_promised_on_a_host_that_only_placement_can_judge(cloud: Cloud) -> None:
    cloud.mark("h3", "COMPUTE_SECURITY_UEFI_SECURE_BOOT")
    wanted = {"os:secure_boot": "required"}
    with pytest.raises(NoValidHost, match="cannot be protected, since only Placement"):
        ask(cloud.scheduler(), *uuids(1), extra_specs=PROTECTED | wanted)
    assert cloud.allocated() == cloud.standbys() == {}
    (instance,) = uuids(1)
    preferred = {"extra_specs": {EXTRA_SPEC: "preferred"} | wanted, "request": "req-2"}
    assert hosts_of(ask(cloud.scheduler(), instance, **preferred)) == ["h3"]
    assert cloud.standbys() == {instance: None}
    # Nor does the keeper promise one later.
    scheduler = cloud.scheduler()
    keeper = StandbyKeeper(
        cloud.database,
        scheduler.host_cache,
        lambda: scheduler.driver.plan,
        lambda: scheduler.claimer,
    )
    assert keeper.keep().without.keys() == {instance}


def test_a_trait_is_where_placement_has_it(cloud: Cloud) -> None:
    cloud.mark("h3", AVX2)
    wanted = {"extra_specs": {f"trait:{AVX2}": "required"}}
    (instance,) = uuids(1)
    assert hosts_of(ask(cloud.scheduler(), instance, **wanted)) == ["h3"]
    assert cloud.allocated() == {instance: "h3"}
    nobody = {"extra_specs": {"trait:HW_CPU_X86_AVX512F": "required"}}
    with pytest.raises(NoValidHost):
        ask(cloud.scheduler(), *uuids(1), request="req-2", **nobody)


SIZES = {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 10}


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("given", "amounts"),
    [
        ({"resources:VCPU": "0"}, {"VCPU": 0}),
        ({"resources:VCPU": "3"}, {"VCPU": 3}),
        ({"resources:MEMORY_MB": "0"}, {"MEMORY_MB": 0}),
        ({"resources:MEMORY_MB": "512"}, {"MEMORY_MB": 512}),
        ({"resources:MEMORY_MB": "4096"}, {"MEMORY_MB": 4096}),
        ({"resources:DISK_GB": "0"}, {"DISK_GB": 0}),
        ({"resources:DISK_GB": "4"}, {"DISK_GB": 4}),
        ({"resources:DISK_GB": "20"}, {"DISK_GB": 20}),
        ({"resources:PCPU": "2"}, {"VCPU": 0, "PCPU": 2}),
        ({"resources1:VCPU": "2", "resources2:VCPU": "3", "group_policy": "none"}, {"VCPU": 5}),
        ({"resources1:VCPU": "0"}, {"VCPU": 0}),
        ({"resources_DISK:DISK_GB": "3"}, {"DISK_GB": 3}),
        ({"resources:CUSTOM_BAREMETAL": "0"}, {}),
        (
            {**{f"resources:{name}": "0" for name in SIZES}, "resources:CUSTOM_BAREMETAL": "1"},
            {**dict.fromkeys(SIZES, 0), "CUSTOM_BAREMETAL": 1},
        ),
    ],
    ids=str,
)
def test_amounts_in_place_of_the_flavor_s_are_allocated_and_counted(
    cloud: Cloud, given: Mapping[str, str], amounts: Mapping[str, int]
) -> None:
    cloud.ask("PUT", "/resource_classes/CUSTOM_BAREMETAL", {})
    more = {"PCPU": 16, "DISK_GB": 1000, "CUSTOM_BAREMETAL": 2}
    totals = {"VCPU": 16, "MEMORY_MB": MEMORY["h1"], **more}
    cloud.give("h1", {name: {"total": total} for name, total in totals.items()})
    before, (instance,) = cloud.used("h1"), uuids(1)
    assert hosts_of(ask(cloud.scheduler(), instance, root_gb=10, extra_specs=given)) == ["h1"]
    taken = {**SIZES, **amounts}
    expected = {name: each for name, each in taken.items() if each}
    found = cloud.client.allocations_for(instance).resources
    assert found == {cloud.nodes["h1"]: expected}
    vcpus = taken["VCPU"] + taken.get("PCPU", 0)
    counted = vcpus, taken["MEMORY_MB"], taken["DISK_GB"]
    assert tuple(map(int.__sub__, cloud.used("h1"), before)) == counted
    # Said again, it is answered again.
    assert hosts_of(ask(cloud.scheduler(), instance, root_gb=10, extra_specs=given)) == ["h1"]
    assert tuple(map(int.__sub__, cloud.used("h1"), before)) == counted


def test_what_an_instance_takes_by_its_extra_specs_bounds_how_many_fit(cloud: Cloud) -> None:
    """Of 16 vCPUs, by flavors of 16."""
    specs = {"resources:VCPU": "4", "resources:MEMORY_MB": "16"}
    servers = uuids(12)
    for number, uuid in enumerate(servers):
        ask(cloud.scheduler(), uuid, request=f"req-{number}", vcpus=16, extra_specs=specs)
    assert Counter(cloud.allocated().values()) == dict.fromkeys(HOSTS, 4)
    with pytest.raises(NoValidHost):
        ask(cloud.scheduler(), *uuids(1), request="more", vcpus=16, extra_specs=specs)


@pytest.mark.parametrize("given", ["0", "3"])
def test_an_amount_of_disk_counts_where_the_root_disk_is_a_volume(cloud: Cloud, given: str) -> None:
    for host in HOSTS:
        cloud.give(
            host,
            {name: {"total": 16} for name in ("VCPU", "DISK_GB")}
            | {"MEMORY_MB": {"total": MEMORY[host]}},
        )
    before, (instance,) = cloud.used("h1"), uuids(1)
    specs = {"resources:DISK_GB": given}
    ask(cloud.scheduler(), instance, root_gb=10, is_bfv=True, extra_specs=specs)
    found = cloud.client.allocations_for(instance).resources[cloud.nodes["h1"]]
    assert found.get("DISK_GB", 0) == int(given)
    assert cloud.used("h1")[2] - before[2] == int(given)


def test_a_trait_that_placement_does_not_know_is_named(cloud: Cloud) -> None:
    wanted = {"extra_specs": {"trait:CUSTOM_NOBODY": "required"}}
    with pytest.raises(NoValidHost, match=UNKNOWN_TO_PLACEMENT):
        ask(cloud.scheduler(), *uuids(1), **wanted)


def test_a_dry_run_says_where_placement_has_it_and_allocates_nothing(cloud: Cloud) -> None:
    cloud.mark("h3", AVX2)
    wanted = {**FLAVOR, "extra_specs": {f"trait:{AVX2}": "required"}}
    arguments = SelectArguments(a_request(**wanted), uuids(1), True, False)
    decision, _ = cloud.scheduler().rehearse(arguments, RequestContext())
    assert decision.placements[0].chosen.host == "h3"
    assert cloud.allocated() == cloud.claimed() == {}


@pytest.mark.matrix
def test_while_placement_is_away_nothing_is_claimed_and_then_it_goes_on(
    cloud: Cloud, placement: Placement, tmp_path: Path
) -> None:
    scheduler, lenient = cloud.scheduler(), cloud.scheduler(required=False)
    (first, second) = uuids(2)
    placement.stop()
    with pytest.raises(PlacementUnavailable):
        ask(scheduler, first)
    assert cloud.claimed() == {}
    assert hosts_of(ask(lenient, second, request="req-2")) == ["h1"]
    assert cloud.claimed() == {second: "h1"}
    placement.start()
    assert hosts_of(ask(scheduler, first)) == ["h1"]
    assert cloud.allocated() == {first: "h1"}


class Faulty:
    """A client whose connection breaks while it writes allocations, before or after they are."""

    def __init__(self, client: PlacementClient, is_written: bool) -> None:
        self._client = client
        self._is_written = is_written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def post_allocations(self, document: Mapping[str, Any]) -> None:
        if self._is_written:
            self._client.post_allocations(document)
        raise PlacementUnavailable("POST", "it broke", "look at the network", may_be_done=True)


@pytest.mark.parametrize("is_written", [False, True])
def test_an_answer_of_placement_that_is_lost_is_made_good_by_the_repetition(
    cloud: Cloud, is_written: bool
) -> None:
    faulty: Any = Faulty(cloud.client, is_written)
    (instance,) = uuids(1)
    with pytest.raises(PlacementUnavailable):
        ask(cloud.scheduler(faulty), instance)
    assert cloud.claimed() == {instance: "h1"}
    assert cloud.allocated() == ({instance: "h1"} if is_written else {})
    assert hosts_of(ask(cloud.scheduler(), instance)) == ["h1"]
    assert cloud.allocated() == cloud.claimed() == {instance: "h1"}


def test_a_repetition_does_not_allocate_again_where_an_instance_has_left(cloud: Cloud) -> None:
    (instance,) = uuids(1)
    ask(cloud.scheduler(), instance)
    ask(cloud.scheduler(), instance, request="req-2", ignore_hosts=["h1"])
    before = cloud.client.allocations_for(instance).resources
    ask(cloud.scheduler(), instance, request="req-2", ignore_hosts=["h1"])
    assert cloud.client.allocations_for(instance).resources == before


def test_who_takes_the_room_between_question_and_claim_wins(cloud: Cloud) -> None:
    """Another service allocates all of h1 just before we do."""
    stranger = str(uuid4())

    class Late(Faulty):
        def post_allocations(self, document: Mapping[str, Any]) -> None:
            owner = {"project_id": "p", "user_id": "u", "consumer_generation": None}
            everything = {cloud.nodes["h1"]: {"resources": {"MEMORY_MB": MEMORY["h1"]}}}
            if stranger not in cloud.client.allocations_of(cloud.nodes["h1"]):
                cloud.client.post_allocations({stranger: {"allocations": everything, **owner}})
            cloud.client.post_allocations(document)

    late: Any = Late(cloud.client, True)
    (instance,) = uuids(1)
    assert hosts_of(ask(cloud.scheduler(late), instance)) == ["h2"]
    assert cloud.claimed() == {instance: "h2"}
    assert cloud.allocated() == {instance: "h2", stranger: "h1"}


# Ways to name one host that no filter judges.
FORCED = {
    "host": {"force_hosts": ["H1"]},
    "node": {"force_nodes": ["h1"]},
    "both": {"force_hosts": ["h1"], "force_nodes": ["h1"]},
}


@pytest.mark.parametrize("forced", FORCED.values(), ids=FORCED)
def test_what_placement_forbids_is_not_forced(cloud: Cloud, forced: Mapping[str, Any]) -> None:
    (instance,) = uuids(1)
    cloud.mark("h1", DISABLED)
    with pytest.raises(NoValidHost):
        ask(cloud.scheduler(), instance, **forced)
    assert cloud.allocated() == cloud.claimed() == {}
    cloud.mark("h1")
    assert hosts_of(ask(cloud.scheduler(), instance, request="req-2", **forced)) == ["h1"]
    assert cloud.allocated() == cloud.claimed() == {instance: "h1"}


def test_a_forced_host_that_is_full_in_placement_is_refused(cloud: Cloud) -> None:
    cloud.give("h1", {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 1024}})
    with pytest.raises(NoValidHost):
        ask(cloud.scheduler(), *uuids(1), force_hosts=["h1"])
    assert cloud.allocated() == cloud.claimed() == {}


def test_a_dry_run_says_that_placement_forbids_a_forced_host(cloud: Cloud) -> None:
    cloud.mark("h1", DISABLED)
    request = a_request(**FLAVOR, force_hosts=["h1"])
    arguments = SelectArguments(request, uuids(1), True, False)
    decision, _ = cloud.scheduler().rehearse(arguments, RequestContext())
    assert decision.shortage is not None
    assert [each.name for each in decision.shortage.steps] == ["force_hosts", "placement"]


def test_of_a_rebuild_placement_is_not_asked(cloud: Cloud) -> None:
    """The instance stays, and has its allocation, on a host that is full or disabled by now."""
    cloud.mark("h1", DISABLED)
    stays = {"force_hosts": ["h1"], "force_nodes": ["h1"]}
    rebuild = {"scheduler_hints": {"_nova_check_type": ["rebuild"]}, **stays}
    (instance,) = uuids(1)
    assert hosts_of(ask(cloud.scheduler(), instance, **rebuild)) == ["h1"]
    arguments = SelectArguments(a_request(**FLAVOR, **rebuild), [instance], True, True)
    decision, _ = cloud.scheduler().rehearse(arguments, RequestContext())
    assert [each.chosen.host for each in decision.placements] == ["h1"]
    assert not cloud.allocated()


def test_of_several_forced_hosts_the_allowed_one_is_chosen(cloud: Cloud) -> None:
    cloud.mark("h1", DISABLED)
    (instance,) = uuids(1)
    assert hosts_of(ask(cloud.scheduler(), instance, force_hosts=["h1", "h2"])) == ["h2"]


def test_without_a_filter_for_it_disabled_hosts_are_left_to_placement(cloud: Cloud) -> None:
    cloud.mark("h1", DISABLED)
    (instance,) = uuids(1)
    scheduler = cloud.scheduler(filters=[RamFilter()])
    assert hosts_of(ask(scheduler, instance)) == ["h2"]


# Requests for a trait about which Placement is asked first, and the hosts that they may get.
NAMED = {
    "forced host": ({"force_hosts": ["h3"]}, "h3"),
    "forced hosts": ({"force_hosts": ["h2", "h3"]}, "h2"),
    "forced node": ({"force_nodes": ["h3"]}, "h3"),
    "destination": ({"requested_destination": Destination(host="h3")}, "h3"),
    "node of it": ({"requested_destination": Destination(node="h3")}, "h3"),
    "group": (
        {
            "scheduler_hints": {"group": ["g"]},
            "instance_group": InstanceGroup("g", policy="affinity"),
        },
        "h1",
    ),
    "same host": ({"scheduler_hints": {"same_host": ["i"]}}, "h1"),
    "different host": ({"scheduler_hints": {"different_host": ["i"]}}, "h1"),
}


@pytest.mark.parametrize(("named", "host"), NAMED.values(), ids=NAMED)
def test_the_limit_of_candidates_hides_no_host_that_a_request_names(
    cloud: Cloud, named: Mapping[str, Any], host: str
) -> None:
    """Placement gives some candidates up to the limit, without regard to names."""
    for each in HOSTS:
        cloud.mark(each, AVX2)
    wanted = {"extra_specs": {f"trait:{AVX2}": "required"}, **named}
    for number in range(3):
        scheduler = cloud.scheduler(max_candidates=1)
        (instance,) = uuids(1)
        assert hosts_of(ask(scheduler, instance, request=f"req-{number}", **wanted)) == [host]
        cloud.client.delete_allocations(instance)
        assert scheduler.claimer is not None
        scheduler.claimer.release([instance])

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Pools hold the devices that may be given away and are free, each once."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg

from compute_agent.audit.pci_devices import free_pools
from compute_agent.audit.tracker import ResourceTracker
from compute_agent.device_spec import DeviceSpec, parse
from compute_agent.virt.driver import NodeFacts, NodeName, PciDevice
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes
from inventory.engine import Database
from inventory.objects import node_json
from inventory.objects.pci_and_network import PciDevicePool
from inventory.pci_pools import PciPools
from tests.devices import wanted
from tests.fixtures import agent
from tests.fixtures.agent import a_guest

Specs = tuple[DeviceSpec, ...]


def specs(*values: dict[str, Any]) -> Specs:
    return parse(json.dumps(value) for value in values)


def a_card(bus: int = 0x0A, functions: int = 4, **changes: Any) -> list[PciDevice]:
    """Return a network card with a physical function and so many virtual ones."""
    physical = PciDevice(
        f"0000:{bus:02x}:00.0", "8086", "10fb", "type-PF", 0, interface=f"ens{bus}"
    )
    virtual = PciDevice("", "8086", "10ed", "type-VF", 0, parent=physical.address)
    addresses = [f"0000:{bus:02x}:10.{number}" for number in range(functions)]
    card = [physical, *(replace(virtual, address=address) for address in addresses)]
    return [replace(device, **changes) for device in card]


def counts(pools: Sequence[PciDevicePool]) -> dict[str, int]:
    """Return the number of free devices by type."""
    return {pool.tags["dev_type"] or "": pool.count for pool in pools if pool.count}


PHYSNET = specs({"vendor_id": "8086", "physical_network": "physnet1"})
PLAIN = [PciDevice(f"0000:00:0{number}.0", "1af4", "1041") for number in range(1, 6)]
ALL = specs({})


def test_without_an_allowed_device_there_is_no_pool() -> None:
    assert free_pools((), [*a_card(), *PLAIN], []) == []
    assert free_pools(specs({"vendor_id": "10de"}), [*a_card(), *PLAIN], []) == []
    assert free_pools(ALL, [], ["0000:00:01.0"]) == []


def test_the_captured_pool_with_what_ports_ask_for_besides() -> None:
    captured = agent.sample("columns-nova34.json")["pci_stats_one_pool"]
    (expected,) = node_json.pci_pools_from_json(json.dumps(captured))
    spec = specs({"product_id": "10ed", "physical_network": "physnet1"})
    card = [replace(device, interface="ens1f0") for device in a_card()]
    (pool,) = free_pools(spec, card, [])
    assert pool == replace(expected, total=4, tags={**expected.tags, "remote_managed": "false"})


def test_a_pool_for_each_kind_place_and_set_of_tags() -> None:
    near, far = a_card(0x0A, 2), a_card(0x82, 3, numa_node=1, interface=None)
    allowed = specs(
        {"address": "0000:82:00.0", "physical_network": "physnet2", "trusted": "true"},
        {"vendor_id": "8086", "physical_network": None},
        {"vendor_id": "1af4"},
    )
    switched = {"remote_managed": "false"}
    found = [
        (pool.vendor_id, pool.product_id, pool.numa_node, pool.count, pool.tags)
        for pool in free_pools(allowed, [*near, *far, *PLAIN], [])
    ]
    none, two = {"physical_network": None}, {"physical_network": "physnet2", "trusted": "true"}
    assert found == [
        ("1af4", "1041", None, 5, {"dev_type": "type-PCI"}),
        ("8086", "10fb", 0, 1, {"dev_type": "type-PF", **none, **switched}),
        (
            "8086",
            "10ed",
            0,
            2,
            {"dev_type": "type-VF", "parent_ifname": "ens10", **none, **switched},
        ),
        ("8086", "10ed", 1, 3, {"dev_type": "type-VF", **two, **switched}),
        ("8086", "10fb", 1, 1, {"dev_type": "type-PF", **two, **switched}),
    ]


def test_the_first_spec_that_fits_gives_the_tags() -> None:
    one, two = {"physical_network": "one"}, {"physical_network": "two"}
    for first, second in ((one, two), (two, one)):
        (pool,) = free_pools(specs(first, second), PLAIN, [])
        assert pool.tags == {"dev_type": "type-PCI", **first}


def test_virtual_functions_of_one_card_and_of_another_are_told_apart() -> None:
    pools = free_pools(PHYSNET, [*a_card(0x0A), *a_card(0x0B)], [])
    found = {(pool.tags["dev_type"], pool.tags.get("parent_ifname")): pool.count for pool in pools}
    assert found == {("type-PF", None): 2, ("type-VF", "ens10"): 4, ("type-VF", "ens11"): 4}


def test_only_virtual_functions_are_reported_as_remote_managed() -> None:
    remote = specs({"vendor_id": "8086", "remote_managed": "true"}, {"vendor_id": "8086"})
    pools = free_pools(remote, a_card(), [])
    assert {pool.tags["dev_type"]: pool.tags["remote_managed"] for pool in pools} == {
        "type-PF": "false",
        "type-VF": "true",
    }


@pytest.mark.parametrize(
    ("taken", "free"),
    [
        ([], {"type-PF": 1, "type-VF": 4}),
        (["0000:0a:10.2"], {"type-VF": 3}),
        (["0000:0a:10.2", "0000:0a:10.0"], {"type-VF": 2}),
        ([f"0000:0a:10.{number}" for number in range(4)], {}),
        (["0000:0a:00.0"], {}),
        (["0000:0a:00.0", "0000:0a:10.0"], {}),
        # Devices of guests that are no devices of ours, or not any more.
        (["0000:0b:10.2"], {"type-PF": 1, "type-VF": 4}),
    ],
)
def test_functions_of_one_card_take_each_other(taken: list[str], free: dict[str, int]) -> None:
    assert counts(free_pools(PHYSNET, a_card(), taken)) == free


def a_card_with_names() -> list[PciDevice]:
    """Return such a card, each function of which has an interface."""
    return [replace(each, names=(f"net{number}",)) for number, each in enumerate(a_card())]


@pytest.mark.parametrize(
    ("taken", "names", "free"),
    [
        ([], ["net3"], {"type-VF": 3}),
        (["0000:0a:10.0"], ["net3", "elsewhere"], {"type-VF": 2}),
        # Others may have virtual functions of a card whose own interface is shared by macvtap.
        ([], ["net0"], {"type-VF": 4}),
        (["0000:0a:00.0"], ["net0"], {}),
        ([], ["elsewhere"], {"type-PF": 1, "type-VF": 4}),
    ],
)
def test_a_function_that_is_used_by_its_name_is_not_free(
    taken: list[str], names: list[str], free: dict[str, int]
) -> None:
    assert counts(free_pools(PHYSNET, a_card_with_names(), taken, names)) == free


def test_a_virtual_function_that_is_not_offered_takes_its_physical_one_all_the_same() -> None:
    only_physical = specs({"product_id": "10fb"})
    assert counts(free_pools(only_physical, a_card(), [])) == {"type-PF": 1}
    assert counts(free_pools(only_physical, a_card(), ["0000:0a:10.2"])) == {}


def test_vdpa_is_a_virtual_function_to_its_physical_one() -> None:
    card = [replace(each, kind="vdpa") if each.parent else each for each in a_card()]
    assert counts(free_pools(PHYSNET, card, [])) == {"type-PF": 1, "vdpa": 4}
    assert counts(free_pools(PHYSNET, card, ["0000:0a:10.1"])) == {"vdpa": 3}
    assert counts(free_pools(PHYSNET, card, ["0000:0a:00.0"])) == {}


def test_what_is_special_is_left_for_those_who_ask_for_it() -> None:
    """Schedulers empty the pools in the order in which they stand."""
    trusted = {"address": "0000:00:01.0", "trusted": "true"}
    left = PciPools(free_pools(specs(trusted, {"vendor_id": "1af4"}), PLAIN, []))
    for _ in range(4):
        taken = left.consume([wanted(1, {"vendor_id": "1af4"})])
        assert taken is not None
        left = taken
    assert left.consume([wanted(1, {"vendor_id": "1af4", "trusted": "True"})]) is not None


NETWORK = {"physical_network": "physnet1", "remote_managed": "False"}


@pytest.mark.parametrize(
    ("request_for", "served"),
    [
        (wanted(4, {"vendor_id": "8086", "product_id": "10ed"}), True),
        (wanted(5, {"vendor_id": "8086", "product_id": "10ed"}), False),
        # As ports of a network ask.
        (wanted(1, NETWORK), True),
        (wanted(1, NETWORK | {"dev_type": "type-PF"}), True),
        (wanted(1, NETWORK | {"dev_type": "vdpa"}), False),
        (wanted(1, NETWORK | {"trusted": "True"}), True),
        (wanted(1, NETWORK | {"parent_ifname": "ens10"}), True),
        (wanted(1, NETWORK | {"parent_ifname": "ens11"}), False),
        (wanted(1, NETWORK | {"remote_managed": "True"}), False),
        (wanted(1, {**NETWORK, "physical_network": "physnet2"}), False),
        (wanted(1, {**NETWORK, "physical_network": None}), False),
        (wanted(1, {"vendor_id": "8086", "live_migratable": "true"}), True),
        (wanted(1, {"vendor_id": "8086", "live_migratable": "false"}), False),
    ],
)
def test_written_pools_serve_requests(request_for: Any, served: bool) -> None:
    keys = {"physical_network": "physnet1", "trusted": True, "live_migratable": "yes"}
    pools = free_pools(specs({"vendor_id": "8086", **keys}), a_card(), [])
    read = node_json.pci_pools_from_json(node_json.pci_pools_to_json(pools))
    assert read == pools
    assert (PciPools(read).consume([request_for]) is not None) == served


def test_an_audit_writes_the_pools_of_what_guests_leave(
    conf: cfg.ConfigOpts, database: Database
) -> None:
    class WithDevices(FakeDriver):
        """A driver whose nodes have a network card."""

        def facts(self, node: NodeName) -> NodeFacts:
            return replace(super().facts(node), pci_devices=tuple(a_card()))

    conf.set_override("device_spec", ['{"product_id": "10ed"}'], group="pci")
    driver = WithDevices(conf)
    tracker = ResourceTracker(conf, database, driver)
    for number in range(3):
        tracker.audit({"alpha": 7})
        (row,) = database.read(compute_nodes.all_live)
        assert [each.count for each in node_json.pci_pools_from_json(row.pci_stats)] == [4 - number]
        # One that is shut off keeps its device.
        taken = a_guest(number, vm_state="stopped", pci_addresses=(f"0000:0a:10.{number}",))
        driver.add_guest("alpha", taken)


DEVICES = st.lists(
    st.builds(
        PciDevice,
        st.from_regex(r"000[01]:0[a-c]:0[0-9]\.[0-3]", fullmatch=True),
        st.sampled_from(["8086", "1af4"]),
        st.sampled_from(["1041", "10ed"]),
        st.sampled_from(["type-PCI", "type-PF", "type-VF", "vdpa"]),
        st.sampled_from([None, 0, 1]),
        interface=st.sampled_from([None, "eth0", "eth1"]),
    ),
    unique_by=lambda device: device.address,
    max_size=20,
)
SPECS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "vendor_id": st.sampled_from(["8086", "*"]),
            "address": st.sampled_from(["0b:*.*", ".1", "0000:0a:00.1"]),
            "physical_network": st.sampled_from([None, "one", "two"]),
            "trusted": st.booleans(),
        },
    ),
    max_size=3,
).map(lambda values: specs(*values))


def total(pools: Sequence[PciDevicePool]) -> int:
    return sum(pool.count for pool in pools)


@given(DEVICES, SPECS, st.data())
def test_free_and_taken_are_all_that_is_allowed(
    devices: list[PciDevice], allowed: Specs, data: st.DataObject
) -> None:
    taken = {each.address for each in devices if data.draw(st.booleans())}
    others = {each.address for each in devices} - taken
    assert total(free_pools(allowed, devices, taken)) + total(
        free_pools(allowed, devices, others)
    ) == total(free_pools(allowed, devices, ()))
    # What guests have stays in sight.
    offered = [replace(pool, count=pool.total or 0) for pool in free_pools(allowed, devices, taken)]
    assert offered == free_pools(allowed, devices, ())


CARDS = st.integers(0, 3).map(
    lambda cards: [each for bus in range(10, 10 + cards) for each in a_card(bus, bus - 9)]
)


@given(st.tuples(CARDS, DEVICES), SPECS, st.data())
def test_the_order_of_devices_is_of_no_account(
    drawn: tuple[list[PciDevice], list[PciDevice]], allowed: Specs, data: st.DataObject
) -> None:
    devices = list({each.address: each for part in drawn for each in part}.values())
    taken = {each.address for each in devices if data.draw(st.booleans())}
    shuffled = data.draw(st.permutations(devices))
    expected = free_pools(allowed, devices, taken)
    assert free_pools(allowed, shuffled, taken) == expected
    # And neither is how often guests name one.
    assert free_pools(allowed, shuffled, [*taken, *taken]) == expected


@given(CARDS, st.data())
def test_a_physical_function_and_its_virtual_ones_are_never_free_beside_a_guest_of_the_other(
    devices: list[PciDevice], data: st.DataObject
) -> None:
    taken = {each.address for each in devices if data.draw(st.booleans())}
    free = {each.address for each in devices} - taken
    for physical in (each for each in devices if each.kind == "type-PF"):
        virtual = {each.address for each in devices if each.parent == physical.address}
        if physical.address in taken:
            free -= virtual
        elif virtual & taken:
            free.discard(physical.address)
    assert total(free_pools(ALL, devices, taken)) == len(free)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Placement says of nodes bounds what is placed there, upwards and downwards."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent.virt.driver import (
    MIB_PER_GIB,
    DriverMisconfigured,
    NodeFacts,
    NodeName,
    NodeSettings,
    Size,
)
from compute_agent.virt.nova.inventories import PlacementInventories, bounded, placement_client
from inventory.fits import fits
from inventory.nova.placement import Inventory, Provider
from inventory.nova.placement_errors import PlacementUnavailable
from tests.fixtures import agent
from tests.fixtures.daemons.process import wait_until

HOST = NodeName("h1", "h1")
OWN_RATIOS = {"cpu_allocation_ratio": 4.0, "ram_allocation_ratio": 1.0}


def facts(**reserved: int) -> NodeFacts:
    settings = NodeSettings("", Size(**reserved), dict(OWN_RATIOS))
    return NodeFacts(64, 65536, 1000, "QEMU", 1, uuid="n1", settings=settings)


def an_inventory(total: int, **changes: float) -> Inventory:
    return replace(Inventory(total, 0, total, 1.0), **changes)


def ratios(found: NodeFacts) -> Mapping[str, float]:
    assert found.settings is not None
    return found.settings.ratios


def test_a_ratio_of_placement_replaces_that_of_nova() -> None:
    found = bounded(facts(), {"VCPU": an_inventory(64, allocation_ratio=8.0)})
    assert found.vcpus == 64
    assert ratios(found) == {**OWN_RATIOS, "cpu_allocation_ratio": 8.0}


def test_what_the_node_itself_does_not_have_stays() -> None:
    found = bounded(facts(), {})
    assert (found, ratios(found)) == (facts(), OWN_RATIOS)


def test_the_usual_reserve_leaves_the_ratio_as_people_know_it() -> None:
    found = bounded(facts(memory_mb=512), {"MEMORY_MB": an_inventory(65536, reserved=512)})
    assert ratios(found)["ram_allocation_ratio"] == 1.0


def test_vcpus_and_cpus_of_their_own_are_counted_together() -> None:
    found = bounded(
        facts(), {"VCPU": an_inventory(8, allocation_ratio=4.0), "PCPU": an_inventory(4)}
    )
    assert (found.vcpus, found.vcpus * ratios(found)["cpu_allocation_ratio"]) == (12, 36.0)


AMOUNTS = st.integers(1, 1 << 20)


@given(
    total=AMOUNTS,
    reserved=st.integers(0, 1 << 20),
    max_unit=st.one_of(AMOUNTS, st.just(2**31 - 1)),
    ratio=st.floats(0.1, 64.0),
    rest=st.integers(-100, 1 << 20),
    used=st.integers(0, 1 << 20),
    wanted=AMOUNTS,
)
def test_what_placement_has_room_for_fits(
    total: int, reserved: int, max_unit: int, ratio: float, rest: int, used: int, wanted: int
) -> None:
    """And nothing else, but for the largest instance and what a total cannot say."""
    there = Inventory(total, min(reserved, total), max_unit, ratio)
    for has_disk in (False, True):
        if has_disk:
            name, unit = "DISK_GB", MIB_PER_GIB
            found = bounded(facts(disk_mb=rest * unit), {name: there})
            whole, limit = found.local_gb, ratios(found)["disk_allocation_ratio"]
        else:
            name, unit = "MEMORY_MB", 1
            found = bounded(facts(memory_mb=rest), {name: there})
            whole, limit = found.memory_mb, ratios(found)["ram_allocation_ratio"]
        fits_here = fits(whole * unit, (used + rest) * unit, limit, wanted * unit)
        has_room = used + wanted <= there.capacity
        if has_room and wanted <= max_unit:
            assert fits_here
        if not has_room:
            assert not fits_here


class ScriptedPlacement:
    """Providers by their uuid, with a generation and a ratio of vCPUs each."""

    def __init__(self, **ratios: float) -> None:
        self.ratios = {uuid: (1, ratio) for uuid, ratio in ratios.items()}
        self.asked: list[list[str]] = []
        self.error: Exception | None = None

    def providers(self) -> list[Provider]:
        if self.error is not None:
            raise self.error
        return [Provider(each, each, n, None, each) for each, (n, _) in self.ratios.items()]

    def inventories_of(self, uuids: list[str]) -> dict[str, dict[str, Inventory]]:
        self.asked.append(sorted(uuids))
        return {
            each: {"VCPU": an_inventory(64, allocation_ratio=self.ratios[each][1])}
            for each in uuids
        }

    def close(self) -> None:
        pass


class Mirrored:
    """What a mirror makes of a scripted Placement."""

    def __init__(self) -> None:
        self.placement = ScriptedPlacement(n1=8.0, n2=8.0)
        self.changed: list[NodeName] = []
        client: object = self.placement
        self.inventories = PlacementInventories(client, 0.01, self.changed.append)  # type: ignore[arg-type]  # A script

    @property
    def ratio(self) -> float | None:
        return ratios(self.inventories.applied(HOST, facts())).get("cpu_allocation_ratio")


@pytest.fixture
def mirrored() -> Iterator[Mirrored]:
    found = Mirrored()
    yield found
    found.inventories.close()


def test_until_placement_is_read_rows_keep_their_ratios(mirrored: Mirrored) -> None:
    assert mirrored.ratio is None
    mirrored.inventories.start()
    assert wait_until(lambda: mirrored.ratio == 8.0)
    assert mirrored.changed == [HOST]


def test_a_change_in_placement_is_followed_and_costs_what_has_changed(mirrored: Mirrored) -> None:
    mirrored.inventories.start()
    assert wait_until(lambda: mirrored.ratio == 8.0)
    mirrored.placement.ratios["n1"] = 2, 9.0
    assert wait_until(lambda: mirrored.ratio == 9.0)
    assert [each for each in mirrored.placement.asked if each] == [["n1", "n2"], ["n1"]]
    del mirrored.placement.ratios["n1"]
    assert wait_until(lambda: mirrored.ratio == 4.0)


def test_without_placement_the_figures_are_those_that_were_known_or_novas(
    mirrored: Mirrored,
) -> None:
    mirrored.placement.error = PlacementUnavailable("GET", "no answer", "start it")
    mirrored.inventories.start()
    assert wait_until(lambda: mirrored.ratio == 4.0)
    mirrored.placement.error = None
    assert wait_until(lambda: mirrored.ratio == 8.0)
    mirrored.placement.error = PlacementUnavailable("GET", "no answer", "start it")
    mirrored.placement.ratios["n1"] = 2, 9.0
    assert mirrored.ratio == 8.0


def test_without_the_section_nothing_is_asked(tmp_path: Path) -> None:
    conf = agent.options(tmp_path)
    assert placement_client(conf) is None
    found = PlacementInventories(None, 1.0, lambda _: None)
    found.start()
    assert found.applied(HOST, facts()) == facts()
    found.close()


def test_a_section_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    conf = agent.options(tmp_path, placement={"auth_type": "nonsense"})
    with pytest.raises(DriverMisconfigured, match="auth_type"):
        placement_client(conf)

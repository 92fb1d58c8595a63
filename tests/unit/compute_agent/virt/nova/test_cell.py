# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A cell in memory follows the rows of its database, whatever comes, changes and goes."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from compute_agent.virt.driver import Move, NodeName, Size
from compute_agent.virt.nova import reserves
from compute_agent.virt.nova.cell import GRACE, CellMirror
from inventory import stored_documents
from inventory.nova.database import NovaDatabase
from inventory.services import ServiceState
from tests.nova_tables import NovaTables, a_flavor, a_service, ago

H1, H2 = NodeName("h1", "h1"), NodeName("h2", "h2")
LIMIT = 60.0
SIZE = Size(2, 4096, 20 * 1024 + 1024)


@pytest.fixture
def nova(tmp_path: Path) -> Iterator[NovaTables]:
    tables = NovaTables(tmp_path / "cell.sqlite")
    yield tables
    tables.close()


@pytest.fixture
def database(nova: NovaTables) -> Iterator[NovaDatabase]:
    opened = nova.open()
    yield opened
    opened.close()


@pytest.fixture
def cell(nova: NovaTables, database: NovaDatabase) -> CellMirror:
    """The cell of two hosts with one instance, read once."""
    nova.add_host("h1", vcpus_used=2, memory_mb_used=512 + 4096, local_gb_used=21)
    nova.add_host("h2")
    nova.boot(1)
    mirror = CellMirror(database, LIMIT)
    assert mirror.poll(whole=True) == {H1, H2}
    return mirror


def test_what_is_there_at_first(cell: CellMirror) -> None:
    facts = cell.facts(H1)
    assert (facts.vcpus, facts.memory_mb, facts.local_gb) == (16, 65536, 1000)
    assert facts.supported_instances == (("x86_64", "kvm", "hvm"),)
    assert facts.settings is not None
    assert facts.settings.reserved == Size(memory_mb=512)
    assert facts.settings.host_ip == "192.0.2.7"
    assert facts.settings.stats == {"failed_builds": "2"}
    (guest,) = cell.guests(H1)
    assert (guest.size, guest.flavor_name, guest.flavor_id) == (SIZE, "m1", 1)
    assert list(cell.guests(H2)) == []


def test_nothing_new_is_no_change(cell: CellMirror) -> None:
    assert cell.poll(whole=False) == set()
    assert cell.poll(whole=True) == set()


def test_a_new_instance_changes_its_node(cell: CellMirror, nova: NovaTables) -> None:
    uuid = nova.boot(2, "h2", updated_at=ago(0), vm_state="building", task_state="spawning")
    nova.add("instance_system_metadata", instance_uuid=uuid, key="image_hw_vif", value="virtio")
    nova.add("instance_system_metadata", instance_uuid=uuid, key="image_min_ram", value="0")
    assert cell.poll(whole=False) == {H2}
    (guest,) = cell.guests(H2)
    assert guest.image_properties == {"hw_vif": "virtio"}
    # Nova has not counted it yet, or has: what is reserved stays.
    assert cell.facts(H2).settings.reserved == Size(memory_mb=512)


def test_an_instance_elsewhere_changes_both(cell: CellMirror, nova: NovaTables) -> None:
    nova.change("instances", {"host": "h1"}, host="h2", node="h2")
    assert cell.poll(whole=False) == {H1, H2}
    assert [len(cell.guests(each)) for each in (H1, H2)] == [0, 1]


def test_an_instance_is_nowhere_after_a_build_that_failed(
    cell: CellMirror, nova: NovaTables
) -> None:
    nova.change("instances", {"host": "h1"}, host=None, node=None)
    assert cell.poll(whole=False) == {H1}
    assert list(cell.guests(H1)) == []


def test_a_deleted_row_has_no_new_stamp(cell: CellMirror, nova: NovaTables) -> None:
    nova.change("instances", {"host": "h1"}, task_state="deleting", updated_at=ago(1))
    assert cell.poll(whole=False) == {H1}
    old = {"updated_at": ago(1000), "deleted_at": ago(0)}
    nova.change("instances", {"host": "h1"}, deleted=1, vm_state="deleted", **old)
    assert cell.poll(whole=False) == {H1}
    assert list(cell.guests(H1)) == []


def test_what_was_missed_is_found_by_reading_everything(cell: CellMirror, nova: NovaTables) -> None:
    nova.change("instances", {"host": "h1"}, deleted=1, updated_at=ago(1000))
    nova.change("compute_nodes", {"host": "h2"}, deleted=2, updated_at=ago(1000))
    assert cell.poll(whole=False) == set()
    assert cell.poll(whole=True) == {H1, H2}
    assert cell.nodes.names() == [H1]


def test_what_commits_late_is_read(cell: CellMirror, nova: NovaTables) -> None:
    nova.change("compute_nodes", {"host": "h1"}, memory_mb=32768, updated_at=ago(5))
    assert cell.poll(whole=False) == {H1}
    assert cell.facts(H1).memory_mb == 32768


def test_a_row_that_cannot_be_read_keeps_the_last_facts(
    cell: CellMirror, nova: NovaTables, caplog: pytest.LogCaptureFixture
) -> None:
    stored_documents.warn.cache_clear()
    nova.change("compute_nodes", {"host": "h1"}, memory_mb=1, numa_topology="[")
    assert cell.poll(whole=False) == set()
    assert cell.facts(H1).memory_mb == 65536
    assert "The row of compute node h1 in Nova cannot be read" in caplog.text


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({"disabled": True}, ServiceState("disabled in Nova")),
        ({"disabled": True, "disabled_reason": "disk"}, ServiceState("disabled in Nova: disk")),
        ({"forced_down": True}, ServiceState(forced_down=True, is_alive=False)),
        ({"last_seen_up": ago(2 * LIMIT)}, ServiceState(is_alive=False)),
    ],
)
def test_a_service_that_is_not_healthy(
    cell: CellMirror, nova: NovaTables, values: dict[str, object], state: ServiceState
) -> None:
    nova.change("services", {"host": "h2"}, **values)
    assert cell.poll(whole=False) == {H2}
    assert cell.services.by_host == {"h1": ServiceState(), "h2": state}
    assert cell.poll(whole=False) == set()
    nova.change("services", {"host": "h2"}, **a_service("h2", disabled_reason=None))
    assert cell.poll(whole=False) == {H2}
    assert cell.services.by_host["h2"] == ServiceState()


def test_when_a_service_was_switched_is_known_until_its_next_heartbeat(
    cell: CellMirror, nova: NovaTables
) -> None:
    at = ago(100).replace(microsecond=0)
    times = {"updated_at": at, "last_seen_up": at - timedelta(seconds=3)}
    nova.change("services", {"host": "h2"}, disabled=True, **times)
    cell.poll_services()
    assert cell.services.by_host["h2"].switched_at == at
    beat = {"updated_at": ago(1), "last_seen_up": ago(1)}
    nova.change("services", {"host": "h2"}, **beat)
    cell.poll(whole=True)
    assert cell.services.by_host["h2"].switched_at == at
    nova.change("services", {"host": "h2"}, disabled_reason="disk", **beat)
    cell.poll_services()
    assert cell.services.by_host["h2"].switched_at is None


def test_services_that_were_up_get_time_after_an_outage(cell: CellMirror, nova: NovaTables) -> None:
    nova.add_host("h3")
    nova.change("services", {"host": "h3"}, last_seen_up=ago(2 * LIMIT))
    cell.poll(whole=True)

    def alive() -> dict[str, bool]:
        cell.poll(whole=True)
        return {host: state.is_alive for host, state in cell.services.by_host.items()}

    assert alive() == {"h1": True, "h2": True, "h3": False}
    nova.change("services", {"host": "h1"}, last_seen_up=ago(75))
    nova.change("services", {"host": "h2"}, last_seen_up=ago(75), forced_down=True)
    nova.add("services", **a_service("h4") | {"last_seen_up": ago(75)})
    cell._read_at, cell._lost = cell._read_at - timedelta(seconds=75), True
    assert alive() == {"h1": True, "h2": False, "h3": False, "h4": False}
    # A poll that is late is no outage.
    cell._read_at -= timedelta(seconds=75)
    cell.services.excused_until -= GRACE
    assert alive() == {"h1": False, "h2": False, "h3": False, "h4": False}


def test_services_come_and_go(cell: CellMirror, nova: NovaTables) -> None:
    nova.change("services", {"host": "h2"}, deleted=2, deleted_at=ago(0))
    nova.change("compute_nodes", {"host": "h2"}, deleted=2, deleted_at=ago(0))
    nova.add("services", **a_service("h3"), created_at=ago(0))
    assert cell.poll(whole=False) == {H2}
    assert cell.services.by_host.keys() == {"h1", "h3"}


def test_a_resize_holds_room_at_both_ends(cell: CellMirror, nova: NovaTables) -> None:
    (guest,) = cell.guests(H1)
    flavors = {"cur": a_flavor(), "old": a_flavor(), "new": a_flavor(2, memory_mb=8192, swap=0)}
    key = {"instance_uuid": guest.uuid}
    nova.change("instance_extra", key, flavor=json.dumps(flavors))
    nova.change("instances", {"host": "h1"}, task_state="resize_migrating")
    ends = {"source_compute": "h1", "source_node": "h1", "dest_compute": "h2", "dest_node": "h2"}
    kinds = {"old_instance_type_id": 1, "new_instance_type_id": 2, "migration_type": "resize"}
    nova.add("migrations", status="migrating", **key, **ends, **kinds)
    assert cell.poll(whole=False) == {H1, H2}
    expected = Move(guest.uuid, H1, H2, SIZE, Size(2, 8192, 20 * 1024))
    assert list(cell.moves(H1)) == list(cell.moves(H2)) == [expected]
    nova.change("migrations", key, status="reverted")
    assert cell.poll(whole=False) == {H1, H2}
    assert list(cell.moves(H2)) == []


def test_amounts_in_extra_specs_are_taken_while_novas_row_counts_the_flavor(
    cell: CellMirror, nova: NovaTables
) -> None:
    """Its node reserves nothing for the difference, while it is there and while it moves."""
    (guest,) = cell.guests(H1)
    specs = {"extra_specs": {"resources:VCPU": "0", "resources:DISK_GB": "3"}}
    larger = a_flavor(2, memory_mb=8192, swap=0, extra_specs={"resources:MEMORY_MB": "9000"})
    key = {"instance_uuid": guest.uuid}
    nova.change("instance_extra", key, flavor=json.dumps({"cur": a_flavor(**specs)}))
    nova.change("instances", {"host": "h1"}, task_state="resize_migrating")
    cell.poll(whole=True)
    (guest,) = cell.guests(H1)
    assert guest.size == Size(0, 4096, 3 * 1024)
    settings = cell.facts(H1).settings
    assert settings is not None
    assert settings.reserved == Size(0, 512, 0)
    flavors = {"cur": a_flavor(**specs), "old": a_flavor(**specs), "new": larger}
    nova.change("instance_extra", key, flavor=json.dumps(flavors))
    ends = {"source_compute": "h1", "source_node": "h1", "dest_compute": "h2", "dest_node": "h2"}
    kinds = {"old_instance_type_id": 1, "new_instance_type_id": 2, "migration_type": "resize"}
    nova.add("migrations", status="migrating", **key, **ends, **kinds)
    used = {"vcpus_used": 2, "memory_mb_used": 512 + 8192, "local_gb_used": 20}
    nova.change("compute_nodes", {"host": "h2"}, **used)
    cell.poll(whole=True)
    expected = Move(guest.uuid, H1, H2, guest.size, Size(2, 9000, 20 * 1024))
    assert list(cell.moves(H1)) == list(cell.moves(H2)) == [expected]
    settings = cell.facts(H2).settings
    assert settings is not None
    assert settings.reserved == Size(0, 512, 0)


def memory_reserved(cell: CellMirror, node: NodeName) -> int:
    settings = cell.facts(node).settings
    assert settings is not None
    return settings.reserved.memory_mb


@pytest.mark.parametrize("states", [{"task_state": "deleting"}, {"vm_state": "building"}])
def test_a_stuck_task_hides_no_raised_reserve(
    cell: CellMirror, nova: NovaTables, states: dict[str, str]
) -> None:
    nova.change("instances", {"host": "h1"}, **states)
    assert cell.poll(whole=False) == {H1}
    nova.change("compute_nodes", {"host": "h1"}, memory_mb_used=4096 + 4096)
    assert cell.poll(whole=False) == {H1}
    assert memory_reserved(cell, H1) == 4096
    assert cell.poll(whole=False) == set()


def test_an_agent_that_starts_while_a_task_is_stuck_finds_the_reserve(
    nova: NovaTables, database: NovaDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first it cannot know whether the node has counted the instance already."""
    nova.add_host("h1", memory_mb_used=512)
    nova.boot(1, vm_state="building", task_state="spawning")
    cell = CellMirror(database, LIMIT)
    cell.poll(whole=True)
    assert memory_reserved(cell, H1) == 512
    nova.change("compute_nodes", {"host": "h1"}, memory_mb_used=512 + 4096)
    cell.poll(whole=False)
    assert memory_reserved(cell, H1) == 512
    # It is lower, or the instance is not counted any more.
    nova.change("compute_nodes", {"host": "h1"}, memory_mb_used=4096)
    cell.poll(whole=False)
    assert memory_reserved(cell, H1) == 4096
    monkeypatch.setattr(reserves, "SETTLED", 0.0)
    assert cell.poll(whole=False) == {H1}
    assert memory_reserved(cell, H1) == 0


def test_a_raised_reserve_is_seen_while_instances_come_and_change_beside_a_stuck_task(
    cell: CellMirror, nova: NovaTables
) -> None:
    """Of a busy host something has always changed less than ten seconds ago."""
    nova.change("instances", {"host": "h1"}, task_state="deleting")
    cell.poll(whole=False)
    for number in range(2, 6):
        building = {"vm_state": "building", "task_state": "spawning"}
        uuid = nova.boot(number, updated_at=ago(0), **building)
        cell.poll(whole=False)
        # The reserve grows by 1024 MB each time, and the new instance is counted with it.
        used, expected = number * 4096 + number * 1024, number * 1024
        nova.change("compute_nodes", {"host": "h1"}, memory_mb_used=used)
        assert cell.poll(whole=False) == {H1}
        assert memory_reserved(cell, H1) == expected
        nova.change("instances", {"uuid": uuid}, vm_state="active", task_state=None)
        assert cell.poll(whole=False) == {H1}
        assert memory_reserved(cell, H1) == expected


def test_what_is_reserved_stays_while_a_move_comes(
    cell: CellMirror, nova: NovaTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    (guest,) = cell.guests(H1)
    nova.change("instances", {"host": "h1"}, task_state="migrating")
    ends = {"source_compute": "h1", "source_node": "h1", "dest_compute": "h2", "dest_node": "h2"}
    kinds = {"old_instance_type_id": 1, "new_instance_type_id": 1}
    kinds |= {"migration_type": "live-migration", "status": "accepted"}
    nova.add("migrations", instance_uuid=guest.uuid, **ends, **kinds)
    assert cell.poll(whole=False) == {H1, H2}
    # Nova has not counted it there yet, and may do so with the next audit of the host only.
    assert memory_reserved(cell, H2) == 512
    monkeypatch.setattr(reserves, "SETTLED", 0.0)
    assert cell.poll(whole=False) == set()
    assert memory_reserved(cell, H2) == 512


def test_columns_of_another_release_are_missing_facts(tmp_path: Path) -> None:
    missing = {"disk_allocation_ratio", "metrics", "pci_stats", "image_ref"}
    nova = NovaTables(tmp_path / "old.sqlite", without=missing)
    nova.add_host("h1", memory_mb_used=4608)
    nova.boot(1)
    database = nova.open()
    mirror = CellMirror(database, LIMIT)
    assert mirror.poll(whole=True) == {H1}
    assert mirror.poll(whole=False) == set()
    (guest,) = mirror.guests(H1)
    assert guest.root_gb == 20
    assert mirror.facts(H1).settings.ratios == {}
    database.close()
    nova.close()

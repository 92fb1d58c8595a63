# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Changes are seen whatever their stamps are, such as those of a clock that is 15 s behind."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from compute_agent.virt.driver import NodeName
from compute_agent.virt.nova import changed_rows
from compute_agent.virt.nova.cell import CellMirror
from inventory.services import ServiceState
from tests.nova_tables import NovaTables, a_service, ago

H1, H2, H3 = (NodeName(each, each) for each in ("h1", "h2", "h3"))
BEHIND = 15


@pytest.fixture
def nova(tmp_path: Path) -> Iterator[NovaTables]:
    with closing(NovaTables(tmp_path / "cell.sqlite")) as tables:
        for host in ("h1", "h2"):
            tables.add_host(host)
        tables.boot(1)
        yield tables


@pytest.fixture
def cell(nova: NovaTables, monkeypatch: pytest.MonkeyPatch) -> Iterator[CellMirror]:
    """A cell of which digests are taken at each poll, and which was read once."""
    monkeypatch.setattr(changed_rows, "INTERVAL", 0.0)
    monkeypatch.setattr(changed_rows, "SHARE", float("inf"))
    with closing(nova.open()) as database:
        mirror = CellMirror(database, 60.0)
        mirror.poll(whole=True)
        assert mirror.poll(whole=False) == set()
        yield mirror


def written(nova: NovaTables, table: str, **values: Any) -> None:
    """Change the rows of a host or an instance by a clock that is behind."""
    nova.change(table, {"host": "h1"}, updated_at=ago(BEHIND), **values)


def test_a_changed_instance(cell: CellMirror, nova: NovaTables) -> None:
    written(nova, "instances", vm_state="stopped")
    assert cell.poll(whole=False) == {H1}
    assert [each.vm_state for each in cell.guests(H1)] == ["stopped"]
    assert cell.poll(whole=False) == set()


def test_a_new_instance_and_what_is_written_of_it_later(cell: CellMirror, nova: NovaTables) -> None:
    uuid = nova.boot(2, "h2", updated_at=ago(BEHIND))
    assert cell.poll(whole=False) == {H2}
    nova.add("instance_system_metadata", instance_uuid=uuid, key="image_hw_vif", value="virtio")
    assert cell.poll(whole=False) == {H2}
    assert [each.image_properties for each in cell.guests(H2)] == [{"hw_vif": "virtio"}]


def test_an_instance_that_goes_elsewhere_or_nowhere(cell: CellMirror, nova: NovaTables) -> None:
    written(nova, "instances", host="h2", node="h2")
    assert cell.poll(whole=False) == {H1, H2}
    nova.change("instances", {"host": "h2"}, updated_at=ago(BEHIND), host=None, node=None)
    assert cell.poll(whole=False) == {H2}
    assert not [*cell.guests(H1), *cell.guests(H2)]


@pytest.mark.parametrize("values", [{"deleted": 1}, {"vm_state": "shelved_offloaded"}])
def test_an_instance_that_is_no_longer_there(
    cell: CellMirror, nova: NovaTables, values: dict[str, Any]
) -> None:
    nova.change("instances", {"host": "h1"}, updated_at=ago(1000), **values)
    assert cell.poll(whole=False) == {H1}
    assert not cell.guests(H1)


def test_a_node(cell: CellMirror, nova: NovaTables) -> None:
    written(nova, "compute_nodes", memory_mb=1024)
    assert cell.poll(whole=False) == {H1}
    assert cell.facts(H1).memory_mb == 1024
    written(nova, "compute_nodes", deleted=1, deleted_at=ago(BEHIND))
    assert cell.poll(whole=False) == {H1}
    assert cell.nodes.names() == [H2]


def test_services(cell: CellMirror, nova: NovaTables) -> None:
    nova.add("services", **a_service("h3"), created_at=ago(BEHIND))
    nova.add_host("h4")
    cell.poll(whole=False)
    assert cell.services.by_host.keys() == {"h1", "h2", "h3", "h4"}
    written(nova, "services", disabled=True)
    cell.poll(whole=False)
    assert cell.services.by_host["h1"] == ServiceState("disabled in Nova")
    written(nova, "services", deleted=1, deleted_at=ago(BEHIND))
    cell.poll(whole=False)
    assert "h1" not in cell.services.by_host


def test_a_migration(cell: CellMirror, nova: NovaTables) -> None:
    (guest,) = cell.guests(H1)
    written(nova, "instances", task_state="migrating")
    ends = {"source_compute": "h1", "source_node": "h1", "dest_compute": "h2", "dest_node": "h2"}
    row = {"instance_uuid": guest.uuid, "migration_type": "live-migration", "status": "accepted"}
    nova.add("migrations", **row, **ends, old_instance_type_id=1, new_instance_type_id=1)
    assert cell.poll(whole=False) == {H1, H2}
    nova.change("migrations", {}, status="completed", updated_at=ago(BEHIND))
    assert cell.poll(whole=False) == {H1, H2}
    assert not cell.moves(H2)


def test_it_warns_of_the_clock_once(
    cell: CellMirror, nova: NovaTables, caplog: pytest.LogCaptureFixture
) -> None:
    nova.change("instances", {"host": "h1"}, vm_state="paused")
    cell.poll(whole=False)
    assert not caplog.text
    written(nova, "instances", vm_state="stopped")
    cell.poll(whole=False)
    written(nova, "instances", vm_state="active")
    cell.poll(whole=False)
    assert len(re.findall(r"the stamp of the change is 1[5-9] s old", caplog.text)) == 1


def test_digests_cost_no_more_than_their_share(nova: NovaTables) -> None:
    timer = changed_rows.DigestTimer()
    with closing(nova.open()) as database:
        assert database.read(lambda each: timer.take(each, database, False)) is not None
        assert database.read(lambda each: timer.take(each, database, False)) is None
        assert database.read(lambda each: timer.take(each, database, True)) is not None

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What cells say that Placement should agree with."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from inventory import stored_documents
from inventory.nova.allocation_audit import AuditedInstance, AuditedMigration, NovaRecords
from inventory.nova.records import read_records
from tests.databases import a_uuid
from tests.nova_tables import NovaCloud, NovaTables, a_flavor, an_instance


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[NovaCloud]:
    with closing(NovaCloud(tmp_path, ["h1", "h2"], ["h3"])) as made:
        yield made


@pytest.fixture
def one(cloud: NovaCloud) -> NovaTables:
    return cloud.cells[0]


def read(cloud: NovaCloud) -> NovaRecords:
    api, cells = cloud.api.open(), [each.open() for each in cloud.cells]
    try:
        return read_records(api, cells, is_complete=True)
    finally:
        for each in (api, *cells):
            each.close()


def test_instances_are_on_the_nodes_of_all_cells(cloud: NovaCloud, one: NovaTables) -> None:
    first, second = one.boot(1, "h2"), cloud.cells[1].boot(2, "h3", task_state="rebooting")
    found = read(cloud)
    assert found.nodes == {a_uuid(host): host for host in ("h1", "h2", "h3")}
    assert [*found.instances] == [
        AuditedInstance(first, a_uuid("h2"), 2, 4096),
        AuditedInstance(second, a_uuid("h3"), 2, 4096, is_busy=True),
    ]
    assert found.is_complete


def test_what_is_being_placed_may_have_something_anywhere(
    cloud: NovaCloud, one: NovaTables
) -> None:
    cloud.api.add("build_requests", instance_uuid="being-placed")
    values = an_instance("without-host", "h1") | {"host": None, "vm_state": "building"}
    one.add("instances", **values)
    one.add("instances", **values | {"uuid": "failed", "vm_state": "error"})
    assert [*read(cloud).instances] == [
        AuditedInstance("being-placed", None, None, None, is_busy=True),
        AuditedInstance("without-host", None, None, None, is_busy=True),
        AuditedInstance("failed", None, None, None),
    ]


def test_the_amounts_of_extra_specs_are_compared(cloud: NovaCloud, one: NovaTables) -> None:
    flavor = a_flavor(extra_specs={"resources:MEMORY_MB": "1"})
    one.add("instances", **an_instance("i", "h1"))
    one.add("instance_extra", instance_uuid="i", flavor=json.dumps({"cur": flavor}))
    assert [*read(cloud).instances] == [AuditedInstance("i", a_uuid("h1"), 2, 1)]


@pytest.mark.parametrize(
    "text",
    [
        '{"cur": {"nova',
        '{"cur": {"nova_object.data": [1]}}',
        json.dumps({"cur": a_flavor(extra_specs="text")}),
        json.dumps({"cur": a_flavor(extra_specs={"resources:MEMORY_MB": [1]})}),
        "[" * 100_000,
    ],
    ids=lambda text: text[-40:],
)
def test_a_flavor_that_cannot_be_read_costs_its_instance_alone(
    cloud: NovaCloud, one: NovaTables, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    stored_documents.warn.cache_clear()
    for uuid, flavor in (("i1", text), ("i2", json.dumps({"cur": a_flavor()}))):
        one.add("instances", **an_instance(uuid, "h1"))
        one.add("instance_extra", instance_uuid=uuid, flavor=flavor)
    for _ in range(2):
        expected = [AuditedInstance(uuid, a_uuid("h1"), 2, 4096) for uuid in ("i1", "i2")]
        assert [*read(cloud).instances] == expected
    assert caplog.text.count("Document flavor of instance i1 in Nova cannot be read (") == 1


@pytest.mark.parametrize(
    ("kind", "status", "counts"),
    [
        ("resize", "finished", True),
        ("resize", "confirmed", False),
        ("live-migration", "running", True),
        ("evacuation", "done", True),
        ("evacuation", "completed", False),
    ],
)
def test_migrations_count_until_their_source_is_free(
    cloud: NovaCloud, one: NovaTables, kind: str, status: str, counts: bool
) -> None:
    ends = {"source_compute": "h1", "source_node": "h1", "dest_compute": "h2", "dest_node": "h2"}
    one.add("migrations", uuid="m", instance_uuid="i", migration_type=kind, status=status, **ends)
    expected = [AuditedMigration("m", "i", a_uuid("h1"), a_uuid("h2"))] if counts else []
    assert [*read(cloud).migrations] == expected

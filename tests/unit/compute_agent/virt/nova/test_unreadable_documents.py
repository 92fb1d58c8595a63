# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A document of Nova's that cannot be read costs itself alone, and is named once."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from compute_agent.virt.driver import NodeName
from compute_agent.virt.nova.cell import CellMirror
from inventory import stored_documents
from tests.nova_tables import NovaTables, a_flavor
from tests.unit.compute_agent.virt.nova.moves import move

H1, H2 = NodeName("h1", "h1"), NodeName("h2", "h2")
DEEP = "[" * 100_000
# What parses as JSON and is no such document is read as carelessly as what does not.
TEXTS = ['{"cur": {"nova', "[1]", "7", '"text"', DEEP]
FLAVORS = [
    {"cur": {"nova_object.data": "text"}},
    {"cur": a_flavor(), "new": {"nova_object.data": [1]}},
    {"cur": a_flavor(), "new": a_flavor(2, vcpus="many")},
    {"cur": a_flavor(), "new": a_flavor(2, extra_specs=[1])},
    {"cur": a_flavor(), "new": a_flavor([1])},
]
DOCUMENTS = [
    *((name, text) for name in ("flavor", "numa_topology", "migration_context") for text in TEXTS),
    *(("flavor", json.dumps(each)) for each in FLAVORS),
    ("migration_context", '{"nova_object.data": [1]}'),
    ("migration_context", '{"nova_object.data": {"migration_id": 7, "old_numa_topology": 7}}'),
]


@pytest.fixture
def nova(tmp_path: Path) -> Iterator[NovaTables]:
    stored_documents.warn.cache_clear()
    with closing(NovaTables(tmp_path / "cell.sqlite")) as tables:
        for host in ("h1", "h2"):
            tables.add_host(host)
        yield tables


@pytest.fixture
def mirror(nova: NovaTables) -> Iterator[CellMirror]:
    with closing(nova.open()) as database:
        yield CellMirror(database, 60.0)


@pytest.mark.parametrize(("name", "text"), DOCUMENTS, ids=lambda each: each[:60])
def test_a_document_of_an_instance_costs_itself_alone(
    nova: NovaTables, mirror: CellMirror, caplog: pytest.LogCaptureFixture, name: str, text: str
) -> None:
    broken, other = nova.boot(1, task_state="resize_prep"), nova.boot(2)
    move(nova, broken, "resize")
    nova.change("instance_extra", {"instance_uuid": broken}, **{name: text})
    for _ in range(2):
        mirror.poll(whole=True)
    guests = {each.uuid: each for each in mirror.guests(H1)}
    assert {each.vcpus for each in guests.values()} == {2}
    assert guests[other].flavor_name == "m1"
    # What the other documents say counts all the same.
    assert guests[broken].flavor_name == (None if name == "flavor" else "m1")
    assert [each.instance_uuid for each in mirror.moves(H2)] == [broken]
    (line,) = (each for each in caplog.messages if "cannot be read" in each)
    assert line.startswith(f"Document {name} of instance {broken} in Nova cannot be read (")
    assert "Nova writes it again" in line


@pytest.mark.parametrize("name", ["metrics", "stats", "supported_instances", "pci_stats"])
@pytest.mark.parametrize("text", ["[", '"text"', "[7]", DEEP], ids=lambda each: each[:9])
def test_a_document_of_a_node_costs_its_node_alone(
    nova: NovaTables, mirror: CellMirror, caplog: pytest.LogCaptureFixture, name: str, text: str
) -> None:
    nova.boot(1, "h2")
    nova.change("compute_nodes", {"host": "h1"}, **{name: text})
    for _ in range(2):
        mirror.poll(whole=True)
    assert mirror.facts(H2).vcpus == 16
    assert len(mirror.guests(H2)) == 1
    said = [each for each in caplog.messages if "cannot be read" in each]
    if (name, text) != ("metrics", "[7]"):
        (line,) = said
        assert line.startswith("The row of compute node h1 in Nova cannot be read (")
        assert f"column {name}: " in line
        assert "nova-compute" in line

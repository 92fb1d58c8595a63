# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How an object is read by the presence of its fields, and refused by its envelope."""

from collections import OrderedDict
from dataclasses import dataclass, field

import pytest

from inventory.objects.field_types import COUNT, TEXT, Malformed, nullable
from inventory.objects.object_schema import ObjectSchema, flattened, object_list


@dataclass
class Berth:
    """A value to be read."""

    depth: int
    name: str | None = None
    owner: str | None = None
    tags: list[str] = field(default_factory=list)


BERTH = ObjectSchema(
    Berth,
    "1.3",
    {"depth": COUNT, "_name": nullable(TEXT), "owner": TEXT},
    renamed={"_name": "name"},
)


def envelope(**changes):
    given = {"name": "Berth", "namespace": "nova", "version": "1.3", "data": {"depth": 7}}
    return {f"nova_object.{key}": each for key, each in (given | changes).items()}


@pytest.mark.parametrize("version", ["1.0", "1.3", "1.99", "1.1.7"])
def test_every_minor_version_is_read(version):
    assert BERTH.read(envelope(version=version)) == Berth(7)


def test_unknown_and_null_fields_count_as_unset():
    data = {"depth": 7, "_name": None, "tags": "not in the table", 5: 6}
    assert BERTH.read(envelope(data=data)) == Berth(7)


def test_an_object_may_be_any_dict():
    assert BERTH.read(OrderedDict(envelope(data=OrderedDict(depth=7)))) == Berth(7)


def test_an_object_without_envelope_is_its_own_data():
    assert BERTH.read({"depth": 7, "_name": "east"}) == Berth(7, "east")


@pytest.mark.parametrize(
    ("primitive", "words"),
    [
        (envelope(version="2.0"), "Berth is of version '2.0', not 1.x"),
        (envelope(version="10.3"), "Berth is of version '10.3', not 1.x"),
        (envelope(version=1), "Berth is of version 1, not 1.x"),
        (envelope(namespace="neutron"), "Berth is of namespace 'neutron', not nova"),
        (envelope(name="Anchor"), "'Anchor' is not Berth"),
        (envelope(name=["Berth"]), "a list is not Berth"),
        (envelope(data=None), "null is not an object"),
        (envelope(data=[]), "a list is not an object"),
        (envelope(data={}), "depth: is missing"),
        (envelope(data={"depth": None}), "depth: is missing"),
        (envelope(data={"depth": -1}), "depth: -1 is not between 0 and 2147483647"),
        ([], "a list is not an object"),
    ],
)
def test_refused(primitive, words):
    with pytest.raises(Malformed) as refused:
        BERTH.read(primitive)
    assert str(refused.value) == words


def test_only_nullable_fields_are_written_as_null():
    assert BERTH.write(Berth(7)) == envelope(data={"depth": 7, "_name": None})
    full = BERTH.write(Berth(7, "east", "city"))
    assert full["nova_object.data"] == {"depth": 7, "_name": "east", "owner": "city"}


def test_lists_come_as_objects_or_plain():
    berths = object_list("BerthList", "1.0", BERTH.kind)
    written = berths.write([Berth(7)])
    assert written["nova_object.data"] == {"objects": [BERTH.write(Berth(7))]}
    assert berths.read(written) == berths.read([{"depth": 7}]) == [Berth(7)]
    assert berths.read(envelope(name="BerthList", data={})) == []
    assert berths.write([]) == envelope(name="BerthList", version="1.0", data={"objects": []})


def test_flattening_takes_the_envelopes_away():
    written = object_list("BerthList", "1.0", BERTH.kind).write([Berth(7)])
    assert flattened(written) == {"objects": [{"depth": 7, "_name": None}]}
    # What a tenant wrote is no envelope.
    assert flattened({"nova_object.data": "x"}) == {"nova_object.data": "x"}

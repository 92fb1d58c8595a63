# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the host table as documents: MessagePack for the database, JSON text for files.

Elements that a snapshot has one by one are written so. A column of all rows is {"all": v} if all
have the same value, {"each": [...]} if they differ, and {"values": [...], "codes": [...]} if many
share a few, which share them again when they are read; in MessagePack it may be an array of
numbers. Instances of whole rows are columns, too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from itertools import islice
from operator import attrgetter
from types import NoneType
from typing import Any, get_type_hints

import msgspec
import numpy as np
from msgspec import Raw

from inventory.errors import counted
from inventory.objects.aggregate import Aggregate
from inventory.objects.numa import NUMATopology
from inventory.pci_pools import PciPools
from scheduler.history.tagged_json import Share, decode, encode, has_type, json_text
from scheduler.history.typed_msgpack import (
    Shared,
    array_of,
    open_value,
    read_array,
    reader_of,
    tagged,
    write,
)
from scheduler.hosts.columns import ELEMENTS, NUMBERS, unset
from scheduler.hosts.flavor_mix import MAX_FLAVORS, MAX_SIZE, FlavorMix, FlavorShare
from scheduler.hosts.snapshots import COLUMNS, EncodedValues, Snapshot
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.instance import Instance

Tick = Callable[[], None]
# Returns the value of what a column has, and of the values that it says are shared.
Leaf = Callable[[Any, Sequence[Any]], Any]
# Of a table, and of instances: a document may say anything.
MAX_ROWS = 1_000_000
_FACTS = tuple(each.name for each in fields(Instance))
_REQUIRED = frozenset(each.name for each in fields(Instance) if each.default is MISSING)
_NAMES = ("host", "nodename")
# Rows between two ticks.
_CHUNK = 256
# Columns of objects of one class; others have JSON. Facts have the types of their fields.
_CLASSES: dict[str, type[Any]] = {"numa_topology": NUMATopology, "pci_stats": PciPools}
_TYPES = get_type_hints(Instance) | _CLASSES
# Attributes of a Snapshot, and their types.
_HEAD: dict[str, type] = {
    "log_id": int,
    "number": int,
    "size": int,
    "numa_packing": bool,
    "time": float,
}
# What documents from before the first release call parts of a snapshot.
_FORMER_NAMES = {"log_id": "reel", "time": "moment", "instances": "residents"}


def to_msgpack(snapshot: Snapshot, share: Shared, tick: Tick) -> bytes:
    """Return a snapshot as MessagePack; tick is called before each further piece of work.

    share writes what many values have in common. What the snapshot refers to must not change
    meanwhile.
    """
    try:
        if (
            not snapshot.instances
            and not snapshot.columns
            and NUMBERS.issuperset(name for name, _, _ in snapshot.elements)
        ):
            return write(snapshot)
        return write(_prepared(snapshot, lambda name, value: _opened(name, value, share), tick))
    # Something in it can be said by tagged JSON only.
    except (UnicodeEncodeError, OverflowError, RecursionError):
        found = _prepared(snapshot, lambda _, value: tagged(value), tick)
        changes = {
            row: {uuid: each and tagged(each) for uuid, each in here.items()}
            for row, here in snapshot.instance_changes.items()
        }
        return write(replace(found, instance_changes=changes))


def of_msgpack(document: Any) -> Snapshot:
    """Return the snapshot of a decoded document, without unknown columns; raises ValueError."""
    return _read(document, _typed_leaf)


def json_pieces(snapshot: Snapshot) -> Iterator[str]:
    """Yield the text of a snapshot of the whole table, with a line for each column."""
    head = {name: encode(getattr(snapshot, name)) for name in _HEAD}
    head["flavor_mix"] = encode([*(snapshot.flavor_mix or ())])
    columns = {
        name: f'{{"rows":null,"column":{_json_column(name, values)}}}'
        for name, values in snapshot.columns.items()
    }
    found = _by_facts(snapshot.instances, lambda _, value: _tagged(value), lambda: None)
    facts = {name: _json(column) for name, column in found.pop("facts").items()}
    rest = {name: _json(part) for name, part in found.items()}
    yield f'{json_text(head)[:-1]},"columns":{_object(columns)}'
    yield f',\n"instances":{_object(rest | {"facts": _object(facts)})}}}'


def of_json(document: Any) -> Snapshot:
    """Return the snapshot of parsed JSON, without unknown columns; raises ValueError."""
    return _read(document, lambda _: decode)


def _prepared(snapshot: Snapshot, opened: Callable[[str, Any], Any], tick: Tick) -> Any:
    """Return a snapshot that msgspec writes as it is to be read."""
    columns = {}
    for name, values in snapshot.columns.items():
        columns[name] = values
        if name not in NUMBERS:
            known = []
            for value in values.values:
                tick()
                known.append(opened(name, value))
            columns[name] = EncodedValues(known, values.codes)
    elements = [
        (name, row, value if name in NUMBERS else opened(name, value))
        for name, row, value in snapshot.elements
    ]
    found = replace(snapshot, columns=columns, elements=elements)
    if snapshot.instances:
        instances: Any = _by_facts(snapshot.instances, lambda n, v: write(opened(n, v)), tick)
        found.instances = instances
    return found


def _opened(name: str, value: Any, share: Shared) -> Any:
    kind = type(value)
    if kind is list and {*map(type, value)} == {Aggregate}:
        return [*map(share, value)]
    return value if kind in (_CLASSES.get(name), Flavor) else open_value(value)


def _by_facts(
    by_row: Mapping[int, Mapping[str, Instance]], text: Callable[[str, Any], bytes], tick: Tick
) -> dict[str, Any]:
    """Return instances as columns, without facts that none of them has."""
    uuids = [uuid for here in by_row.values() for uuid in here]
    instances = [each for here in by_row.values() for each in here.values()]
    facts = {}
    for name in _FACTS:
        values = [*map(attrgetter(name), instances)]
        if name in _REQUIRED or any(value is not None for value in values):
            facts[name] = _column(name, values, text, tick)
    found = {
        "rows": [*by_row],
        "counts": _column("", [*map(len, by_row.values())], text, tick),
        "facts": facts,
    }
    if uuids != [each.uuid for each in instances]:
        found["uuids"] = _column("", uuids, text, tick)
    return found


def _column(
    name: str, values: Sequence[Any], text: Callable[[str, Any], bytes], tick: Tick
) -> dict[str, Any]:
    """Return values, which must live meanwhile: their identity is looked at before their text."""
    codes: list[int] = []
    known: dict[Any, int] = {}
    code_of: dict[bytes, int] = {}
    for number, value in enumerate(values):
        key = value if type(value) is str else id(value)
        code = known.get(key)
        if code is None:
            code = known[key] = code_of.setdefault(text(name, value), len(code_of))
            tick()
        elif not number % _CHUNK:
            tick()
        codes.append(code)
    texts = [*map(Raw, code_of)]
    if len(texts) == 1:
        return {"all": texts[0]}
    if len(texts) == len(codes):
        return {"each": texts}
    return {"values": texts, "codes": codes}


def _json_column(name: str, values: Any) -> str:
    """Return the text of a column; aggregates, which name many hosts, are written once."""
    if name in NUMBERS:
        # JSON has no NaN, and no infinity: a number too large for a float is read as that.
        found = array_of(values)
        text = json_text(found if "all" in found else {"each": values.tolist()})
        return text.replace("NaN", "null").replace("Infinity", "1e999")
    shared: dict[int, tuple[int, Any]] = {}

    def share(value: Any) -> int:
        return shared.setdefault(id(value), (len(shared), value))[0]

    column = _column(name, [*values], lambda _, value: _tagged(value, share), lambda: None)
    if shared:
        column["shared"] = [Raw(_tagged(value)) for _, value in shared.values()]
    return _json(column)


def _tagged(value: Any, share: Share | None = None) -> bytes:
    return json_text(encode(value, share)).encode()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _object(parts: Mapping[str, str]) -> str:
    """Return the text of an object with a line for each of its parts."""
    return "{" + ",".join(f'\n"{name}":{text}' for name, text in parts.items()) + "}"


def _typed_leaf(name: str) -> Leaf:
    read = reader_of(_TYPES.get(name, Any))
    return lambda value, _: value if read is None else read(value)


def _read(document: Any, leaf: Callable[[str], Leaf]) -> Snapshot:
    if type(document) is not dict:
        raise ValueError("a snapshot is missing")
    head = {name: _head(document, name) for name in _HEAD}
    size = head["size"]
    if not 0 <= size <= MAX_ROWS:
        raise ValueError(f"a table cannot have {size} rows")
    parts = document.get("columns")
    if type(parts) is not dict:
        raise ValueError("the columns of a snapshot are missing")
    found = Snapshot(**head)
    columns, elements = {}, []
    for name in COLUMNS:
        if name in parts:
            rows, values = _read_change(name, parts[name], size, leaf(name))
            if rows is None:
                columns[name] = values
            else:
                elements += [(name, row, value) for row, value in zip(rows, values, strict=True)]
    elements += _read_elements(document.get("elements", []), size, leaf)
    found.columns, found.elements = columns, elements
    if instances := _part(document, "instances"):
        found.instances = _read_instances(instances, size, leaf)
    elif instances is None:
        raise ValueError("the instances of a snapshot are missing")
    if (mix := document.get("flavor_mix")) is not None:
        found.flavor_mix = _read_mix(mix)
    found.instance_changes = _read_changes(document.get("instance_changes", {}), size)
    return found


def _head(document: Mapping[str, Any], name: str) -> Any:
    value = decode(_part(document, name))
    if not has_type(value, _HEAD[name]):
        raise ValueError(f"{name} of a snapshot is {value!r}")
    return value


def _part(document: Mapping[str, Any], name: str) -> Any:
    return document.get(name, document.get(_FORMER_NAMES.get(name, name)))


def _read_mix(document: Any) -> FlavorMix:
    found = decode(document)
    if type(found) is list:
        found = _READ_MIX(found)
    if type(found) is not list or len(found) > MAX_FLAVORS or not all(map(_is_share, found)):
        raise ValueError("the flavor mix of a snapshot is not a list of flavors with their shares")
    return tuple(found)


def _is_share(value: Any) -> bool:
    return (
        type(value) is FlavorShare
        and all(type(each) is int and 0 <= each <= MAX_SIZE for each in value.size)
        and type(value.share) in (int, float)
        and 0 < value.share <= 1
    )


def _read_change(
    name: str, document: Any, size: int, leaf: Leaf
) -> tuple[Sequence[int] | None, Any]:
    """Return the rows, None for all, and what they have in a column.

    Other rows than all are in documents of version 1 and 2 only.
    """
    if type(document) is not dict:
        raise ValueError(f"column {name} is not a column")
    rows = document.get("rows")
    if rows is not None:
        rows = _read_rows(rows, size)
    column = document.get("column", document)
    values = read_column(column, size if rows is None else len(rows), leaf)
    _check_values(name, values)
    if rows is not None:
        return rows, values
    if name not in NUMBERS:
        return None, EncodedValues(values, np.arange(len(values)))
    known = [unset(name) if each is None else each for each in values]
    return None, np.array(known, ELEMENTS[name])


def _check_values(name: str, values: Sequence[Any]) -> None:
    if name in _NAMES and not all(each is None or type(each) is str for each in values):
        raise ValueError(f"column {name} has a value that is not a name")
    if name in NUMBERS and not all(_fits(name, each) for each in values):
        raise ValueError(f"column {name} has a value that is no number of its kind")


def _fits(name: str, value: Any) -> bool:
    if value is not None:
        try:
            ELEMENTS[name](value)
        except (TypeError, ValueError, OverflowError):
            return False
    return type(value) in (int, float, bool, NoneType)


def _read_elements(
    document: Any, size: int, leaf: Callable[[str], Leaf]
) -> Iterator[tuple[str, int, Any]]:
    if type(document) is not list:
        raise ValueError("the elements of a snapshot are missing")
    for each in document:
        if type(each) is not list or len(each) != len(("column", "row", "value")):
            raise ValueError("a snapshot has something else among its elements")
        name, row, value = each
        if name in COLUMNS:
            _read_rows([row], size)
            value = leaf(name)(value, ())
            _check_values(name, [value])
            yield name, row, value


def read_column(document: Any, count: int, leaf: Leaf) -> list[Any]:
    """Return the values of a column of count rows, each value once; raises ValueError."""
    if not isinstance(document, dict) or not isinstance(document.get("shared", []), list):
        raise ValueError("a column is missing")
    shared = decode(document.get("shared", []))
    if "all" in document:
        return [leaf(document["all"], shared)] * count
    if "data" in document:
        found = read_array(document)
    elif "each" in document:
        found = _each(document["each"], shared, leaf)
    else:
        values, codes = _each(document.get("values"), shared, leaf), document.get("codes")
        if isinstance(codes, dict):
            codes = read_column(codes, count, leaf)
        if not isinstance(codes, list):
            raise ValueError("a column has no values and codes")
        if not all(type(code) is int and 0 <= code < len(values) for code in codes):
            raise ValueError("a column has a code without a value")
        found = [values[code] for code in codes]
    if len(found) != count:
        raise ValueError(f"a column does not have {counted(count, 'row')}")
    return found


def _each(values: Any, shared: Sequence[Any], leaf: Leaf) -> list[Any]:
    if type(values) is not list:
        raise ValueError("a column has no values")
    return [leaf(value, shared) for value in values]


def _read_rows(rows: Any, size: int) -> list[int]:
    if type(rows) is not list or not all(type(row) is int and 0 <= row < size for row in rows):
        raise ValueError("a snapshot has rows that its table does not have")
    return rows


def _read_instances(
    document: Any, size: int, leaf: Callable[[str], Leaf]
) -> dict[int, Mapping[str, Instance]]:
    if type(document) is not dict:
        raise ValueError("the instances of a snapshot are missing")
    rows = _read_rows(document.get("rows"), size)
    counts = read_column(document.get("counts"), len(rows), leaf(""))
    if not all(type(count) is int and count >= 0 for count in counts) or sum(counts) > MAX_ROWS:
        raise ValueError("a number of instances is not possible")
    instances = _read_facts(document.get("facts"), sum(counts), leaf)
    uuids = [each.uuid for each in instances]
    if "uuids" in document:
        uuids = read_column(document["uuids"], len(instances), leaf(""))
    if not all(type(uuid) is str for uuid in uuids):
        raise ValueError("an instance has no uuid")
    pairs = zip(uuids, instances, strict=True)
    return {row: dict(islice(pairs, count)) for row, count in zip(rows, counts, strict=True)}


def _read_facts(document: Any, count: int, leaf: Callable[[str], Leaf]) -> list[Instance]:
    if type(document) is not dict or (count and not document.keys() >= _REQUIRED):
        raise ValueError("the facts of the instances are missing")
    names = [name for name in _FACTS if name in document]
    columns = [read_column(document[name], count, leaf(name)) for name in names]
    return [Instance(**dict(zip(names, each, strict=True))) for each in zip(*columns, strict=True)]


def _read_changes(document: Any, size: int) -> Mapping[int, Mapping[str, Instance | None]]:
    found: Any = _READ_CHANGES(document)
    if type(found) is not dict or not all(
        type(uuid) is str and (each is None or type(each) is Instance)
        for here in found.values()
        for uuid, each in (here.items() if type(here) is dict else [(None, None)])
    ):
        raise ValueError("the instances of a snapshot have something else among them")
    _read_rows([*found], size)
    return found


_READ_MIX = reader_of(list[FlavorShare]) or list
_READ_CHANGES = reader_of(dict[int, dict[str, Instance | None]]) or dict

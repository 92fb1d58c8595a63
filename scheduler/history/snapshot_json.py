# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the host table as JSON text, and back: see scheduler.hosts.snapshots.

A column is {"all": v} if all rows have the same value, {"each": [...]} if they differ, and
{"values": [...], "codes": [...]} if many share a few. "shared" has what values have in common.
Objects that rows share are written once for each column, and are shared again when read. Texts come
in pieces that take about a millisecond to write.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from inventory.errors import counted
from scheduler.history.tagged_json import Share, decode, encode, has_type, json_text
from scheduler.hosts.columns import ELEMENTS, NUMBERS, unset
from scheduler.hosts.flavor_mix import MAX_FLAVORS, MAX_SIZE, FlavorMix, FlavorShare
from scheduler.hosts.snapshots import COLUMNS, ColumnChange, Snapshot
from scheduler.objects.instance import Instance

# Of a table, and of instances: a document may say anything.
MAX_ROWS = 1_000_000
_CHUNK = 256
_PLAIN = frozenset({type(None), bool, int, str})
_FACTS = tuple(each.name for each in fields(Instance))
_FACTS_OF = attrgetter(*_FACTS)
_REQUIRED = frozenset(each.name for each in fields(Instance) if each.default is MISSING)
_NAMES = ("host", "nodename")
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


def pieces(snapshot: Snapshot) -> Iterator[str]:
    """Yield the text of a snapshot, with a line for each column; "" for the caller to pause.

    What the snapshot refers to must not change meanwhile.
    """
    head = {name: encode(getattr(snapshot, name)) for name in _HEAD}
    if snapshot.flavor_mix is not None:
        head["flavor_mix"] = encode([*snapshot.flavor_mix])
    # Nearly all columns of later snapshots are of this kind, and written in one go.
    few = {
        name: {"rows": [*map(int, part.rows)], "column": {"each": [*part.values]}}
        for name, part in snapshot.columns.items()
        if name in NUMBERS and part.rows is not None and len(part.rows) <= _CHUNK
    }
    yield f'{json_text(head)[:-1]},"columns":{{{_number_texts(few)[1:-1]}'
    others = [each for each in snapshot.columns.items() if each[0] not in few]
    for place, (name, part) in enumerate(others, len(few)):
        yield f'{"," if place else ""}\n"{name}":{{"rows":'
        yield "null" if part.rows is None else json_text([*map(int, part.rows)])
        yield ',"column":'
        yield from number_column(part.values) if name in NUMBERS else _objects(part.values)
        yield "}"
    yield '},\n"instances":{"rows":['
    yield from _instances(snapshot.instances)
    yield "}}"


def read(document: Any) -> Snapshot:
    """Return the snapshot of a document, without unknown columns; raises ValueError."""
    if type(document) is not dict:
        raise ValueError("a snapshot is missing")
    head = {name: _head(document, name) for name in _HEAD}
    size = head["size"]
    if not 0 <= size <= MAX_ROWS:
        raise ValueError(f"a table cannot have {size} rows")
    parts = document.get("columns")
    if type(parts) is not dict:
        raise ValueError("the columns of a snapshot are missing")
    return Snapshot(
        **head,
        columns={name: _read_part(name, parts[name], size) for name in COLUMNS if name in parts},
        instances=_read_instances(_part(document, "instances"), size),
        flavor_mix=_read_mix(document["flavor_mix"]) if "flavor_mix" in document else None,
    )


def _instances(by_row: Mapping[int, Mapping[str, Instance]]) -> Iterator[str]:
    uuids: list[str] = []
    instances: list[Instance] = []
    counts: list[int] = []
    is_by_uuid = True
    for place, (row, here) in enumerate(by_row.items()):
        uuids += here.keys()
        instances += here.values()
        counts.append(len(here))
        is_by_uuid &= all(uuid == each.uuid for uuid, each in here.items())
        yield f"{',' if place else ''}{row}"
    yield '],\n"counts":'
    yield from number_column(counts)
    if not is_by_uuid:
        yield ',\n"uuids":'
        yield from _objects(uuids)
    yield ',\n"facts":{'
    yield from _facts(instances)
    yield "}"


def _facts(instances: Sequence[Instance]) -> Iterator[str]:
    # Most facts of a few instances are unknown, or plain values, which are written in one go.
    plain: dict[str, Any] = {}
    others: list[str] = []
    columns = zip(*map(_FACTS_OF, instances[: _CHUNK + 1]), strict=True)
    for name, values in zip(_FACTS, columns, strict=False):
        kinds, first = {*map(type, values)}, values[0]
        if len(values) > _CHUNK or not kinds <= _PLAIN:
            others.append(name)
        elif len(kinds) > 1 or values.count(first) < len(values):
            plain[name] = {"each": values}
        elif first is not None:
            plain[name] = {"all": first}
    yield json_text(plain)[1:-1]
    comma = "," if plain else ""
    for name in others:
        column = ObjectColumn()
        yield from column.add(map(attrgetter(name), instances))
        if not column.is_empty:
            yield f'{comma}\n"{name}":'
            yield from column.text()
            comma = ","


def _objects(values: Iterable[Any]) -> Iterator[str]:
    column = ObjectColumn()
    yield from column.add(values)
    yield from column.text()


def _head(document: Mapping[str, Any], name: str) -> Any:
    value = decode(_part(document, name))
    if not has_type(value, _HEAD[name]):
        raise ValueError(f"{name} of a snapshot is {value!r}")
    return value


def _part(document: Mapping[str, Any], name: str) -> Any:
    return document.get(name, document.get(_FORMER_NAMES.get(name, name)))


def _read_mix(document: Any) -> FlavorMix:
    found = decode(document)
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


def _read_part(name: str, document: Any, size: int) -> ColumnChange:
    if type(document) is not dict:
        raise ValueError(f"column {name} is not a column")
    rows = document.get("rows")
    if rows is not None:
        rows = _read_rows(rows, size)
    values = read_column(document.get("column"), size if rows is None else len(rows))
    if name in _NAMES and not all(each is None or type(each) is str for each in values):
        raise ValueError(f"column {name} has a value that is not a name")
    if name not in NUMBERS:
        return ColumnChange(rows, values)
    if not all(type(each) in (int, float, bool, type(None)) for each in values):
        raise ValueError(f"column {name} has a value that is not a number")
    known = [unset(name) if each is None else each for each in values]
    try:
        column: npt.NDArray[Any] = np.array(known, ELEMENTS[name])
    except OverflowError:
        raise ValueError(f"column {name} has a number that is too large") from None
    return ColumnChange(None, column) if rows is None else ColumnChange(rows, values)


def _read_rows(rows: Any, size: int) -> list[int]:
    if type(rows) is not list or not all(type(row) is int and 0 <= row < size for row in rows):
        raise ValueError("a snapshot has rows that its table does not have")
    return rows


def _read_instances(document: Any, size: int) -> dict[int, Mapping[str, Instance]]:
    if type(document) is not dict:
        raise ValueError("the instances of a snapshot are missing")
    rows = _read_rows(document.get("rows"), size)
    counts = read_column(document.get("counts"), len(rows))
    if not all(type(count) is int and count >= 0 for count in counts) or sum(counts) > MAX_ROWS:
        raise ValueError("a number of instances is not possible")
    instances = _read_facts(document.get("facts"), sum(counts))
    uuids = [each.uuid for each in instances]
    if "uuids" in document:
        uuids = read_column(document["uuids"], len(instances))
    if not all(type(uuid) is str for uuid in uuids):
        raise ValueError("an instance has no uuid")
    pairs = zip(uuids, instances, strict=True)
    return {row: dict(islice(pairs, count)) for row, count in zip(rows, counts, strict=True)}


def _read_facts(document: Any, count: int) -> list[Instance]:
    if type(document) is not dict or (count and not document.keys() >= _REQUIRED):
        raise ValueError("the facts of the instances are missing")
    names = [name for name in _FACTS if name in document]
    found = zip(*(read_column(document[name], count) for name in names), strict=True)
    return [Instance(**dict(zip(names, facts, strict=True))) for facts in found]


def number_column(values: Sequence[Any] | npt.NDArray[Any]) -> Iterator[str]:
    """Yield the text of a column of numbers, with null for NaN."""
    if isinstance(values, np.ndarray) and len(values) and _all_identical(values):
        yield f'{{"all":{_number_texts(values[:1].tolist())[1:-1]}}}'
        return
    yield '{"each":['
    for start in range(0, len(values), _CHUNK):
        part = values[start : start + _CHUNK]
        listed = part.tolist() if isinstance(part, np.ndarray) else list(part)
        yield ("," if start else "") + _number_texts(listed)[1:-1]
    yield "]}"


class ObjectColumn:
    """A column of objects, which must live meanwhile: their identity is looked at first."""

    def __init__(self) -> None:
        self._codes: list[int] = []
        self._shared = _Distinct()
        self._distinct = _Distinct(self._shared.code)

    @property
    def is_empty(self) -> bool:
        """Whether all are None."""
        return self._distinct.texts == ["null"]

    def add(self, values: Iterable[Any]) -> Iterator[str]:
        """Add values; yield "" again and again, for the caller to pause."""
        rest, known, append = iter(values), self._distinct.known, self._codes.append
        while chunk := [*islice(rest, _CHUNK)]:
            for value in chunk:
                code = known.get(value if type(value) is str else id(value))
                if code is None:
                    code = self._distinct.code(value)
                    yield ""
                append(code)
            yield ""

    def text(self) -> Iterator[str]:
        """Yield the text of the column."""
        texts = self._distinct.texts
        if len(texts) == 1:
            yield f'{{"all":{texts[0]}'
        elif len(texts) == len(self._codes):
            yield from _list('{"each":', texts)
        else:
            yield from _list('{"values":', texts)
            yield from _list(',"codes":', self._codes)
        if self._shared.texts:
            yield from _list(',"shared":', self._shared.texts)
        yield "}"


def read_column(document: Any, count: int) -> list[Any]:
    """Return the values of a column of count rows, each value once; raises ValueError."""
    if not isinstance(document, dict) or not isinstance(document.get("shared", []), list):
        raise ValueError("a column is missing")
    shared = decode(document.get("shared", []))
    if "all" in document:
        return [decode(document["all"], shared)] * count
    if "each" in document:
        found = decode(document["each"], shared)
    else:
        values, codes = decode(document.get("values"), shared), document.get("codes")
        if not isinstance(values, list) or not isinstance(codes, list):
            raise ValueError("a column has no values and codes")
        if not all(type(code) is int and 0 <= code < len(values) for code in codes):
            raise ValueError("a column has a code without a value")
        found = [values[code] for code in codes]
    if not isinstance(found, list) or len(found) != count:
        raise ValueError(f"a column does not have {counted(count, 'row')}")
    return found


class _Distinct:
    """Different values as texts; known has their indices by string or identity of a value."""

    def __init__(self, share: Share | None = None) -> None:
        self.texts: list[str] = []
        self.known: dict[Any, int] = {}
        self._code_of: dict[str, int] = {}
        self._share = share

    def code(self, value: Any) -> int:
        """Return the index of a value."""
        key = value if type(value) is str else id(value)
        code = self.known.get(key)
        if code is None:
            text = json_text(encode(value, self._share))
            code = self.known[key] = self._code_of.setdefault(text, len(self.texts))
            if code == len(self.texts):
                self.texts.append(text)
        return code


def _all_identical(values: npt.NDArray[Any]) -> bool:
    """Return whether all values are the same to the last bit."""
    bits = values.view(f"u{values.itemsize}")
    return bool((bits == bits[:1]).all())


def _number_texts(values: Any) -> str:
    # JSON has neither; a number too large for a float is read as infinite.
    return json_text(values).replace("NaN", "null").replace("Infinity", "1e999")


def _list(head: str, texts: Sequence[str] | Sequence[int]) -> Iterator[str]:
    yield f"{head}["
    for start in range(0, len(texts), _CHUNK):
        yield ("," if start else "") + ",".join(map(str, texts[start : start + _CHUNK]))
    yield "]"

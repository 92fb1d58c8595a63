# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Frames of a film as JSON text, and back: see scheduler.decision.film.

Many rows have the same objects. These are written once for each column, and are one again when
they are read.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.decision.columns import DTYPES, NUMBERS, unset
from scheduler.decision.film import COLUMNS, Frame, Part, Rows
from scheduler.keeping import columns
from scheduler.keeping.columns import Objects, text_of
from scheduler.keeping.plain import from_plain, to_plain
from scheduler.objects.instance import Instance

# No table has more rows, whatever is written in a document.
MOST_ROWS = 1_000_000
_FEW = 256
_FACTS = tuple(each.name for each in fields(Instance))
_MUST = frozenset(each.name for each in fields(Instance) if each.default is MISSING)
_NAMES = ("host", "nodename")
_HEAD = {"reel": int, "number": int, "size": int, "numa_packing": bool, "moment": float}


def pieces(frame: Frame) -> Iterator[str]:
    """Yield the text of a frame, a column to a line; "" where that takes a while.

    What the frame refers to must not change meanwhile.
    """
    head = {name: to_plain(getattr(frame, name)) for name in _HEAD}
    yield text_of(head)[:-1] + ',"columns":{'
    for place, (name, part) in enumerate(frame.columns.items()):
        yield f'{"," if place else ""}\n"{name}":{{"rows":'
        yield _rows_text(part.rows)
        yield ',"column":'
        yield from columns.numbers(part.values) if name in NUMBERS else _objects(part.values)
        yield "}"
    yield '},\n"residents":{"rows":['
    yield from _residents(frame.residents)
    yield "}}"


def read(document: Any) -> Frame:
    """Return the frame of a document; raises ValueError.

    Columns that are not known here are passed over, missing ones have nothing in any row.
    """
    if type(document) is not dict:
        raise ValueError("a frame is missing")
    head = {name: _head(document, name) for name in _HEAD}
    size = head["size"]
    if not 0 <= size <= MOST_ROWS:
        raise ValueError(f"a table of {size} rows is impossible")
    parts = document.get("columns")
    if type(parts) is not dict:
        raise ValueError("the columns of a frame are missing")
    return Frame(
        **head,
        columns={name: _read_part(name, parts[name], size) for name in COLUMNS if name in parts},
        residents=_read_residents(document.get("residents"), size),
    )


def _rows_text(rows: Rows | None) -> str:
    return "null" if rows is None else text_of([*map(int, rows)])


def _residents(residents: Mapping[int, Mapping[str, Instance]]) -> Iterator[str]:
    uuids: list[str] = []
    instances: list[Instance] = []
    counts: list[int] = []
    is_by_uuid = True
    for place, (row, here) in enumerate(residents.items()):
        uuids += here.keys()
        instances += here.values()
        counts.append(len(here))
        is_by_uuid &= all(uuid == each.uuid for uuid, each in here.items())
        yield f"{',' if place else ''}{row}"
    yield '],\n"counts":'
    yield from columns.numbers(counts)
    if not is_by_uuid:
        yield ',\n"uuids":'
        yield from _objects(uuids)
    yield ',\n"facts":{'
    comma = ""
    for name in _FACTS:
        # Most facts are not known of anyone: few instances are looked through at once.
        if len(instances) <= _FEW and all(getattr(each, name) is None for each in instances):
            continue
        column = Objects()
        yield from column.look(map(attrgetter(name), instances))
        if not column.is_nothing:
            yield f'{comma}\n"{name}":'
            yield from column.text()
            comma = ","
    yield "}"


def _objects(values: Iterable[Any]) -> Iterator[str]:
    column = Objects()
    yield from column.look(values)
    yield from column.text()


def _head(document: Mapping[str, Any], name: str) -> Any:
    value, kind = from_plain(document.get(name)), _HEAD[name]
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise ValueError(f"{name} of a frame is {value!r}")
    return value


def _read_part(name: str, document: Any, size: int) -> Part:
    if type(document) is not dict:
        raise ValueError(f"column {name} is none")
    rows = document.get("rows")
    if rows is not None:
        rows = _read_rows(rows, size)
    values = columns.read(document.get("column"), size if rows is None else len(rows))
    if name in _NAMES and not all(each is None or type(each) is str for each in values):
        raise ValueError(f"column {name} has something that is no name")
    if name not in NUMBERS:
        return Part(rows, values)
    if not all(type(each) in (int, float, bool, type(None)) for each in values):
        raise ValueError(f"column {name} has something that is no number")
    known = [unset(name) if each is None else each for each in values]
    try:
        column: npt.NDArray[Any] = np.array(known, DTYPES[name])
    except OverflowError:
        raise ValueError(f"column {name} has a number that is too large") from None
    return Part(None, column) if rows is None else Part(rows, values)


def _read_rows(rows: Any, size: int) -> list[int]:
    if type(rows) is not list or not all(type(row) is int and 0 <= row < size for row in rows):
        raise ValueError("rows are named that there are none of")
    return rows


def _read_residents(document: Any, size: int) -> dict[int, Mapping[str, Instance]]:
    if type(document) is not dict:
        raise ValueError("the residents of a frame are missing")
    rows = _read_rows(document.get("rows"), size)
    counts = columns.read(document.get("counts"), len(rows))
    if not all(type(count) is int and count >= 0 for count in counts) or sum(counts) > MOST_ROWS:
        raise ValueError("a number of instances is impossible")
    instances = _read_instances(document.get("facts"), sum(counts))
    uuids = [each.uuid for each in instances]
    if "uuids" in document:
        uuids = columns.read(document["uuids"], len(instances))
    if not all(type(uuid) is str for uuid in uuids):
        raise ValueError("an instance has no uuid")
    pairs = zip(uuids, instances, strict=True)
    return {
        row: {uuid: each for _, (uuid, each) in zip(range(count), pairs, strict=False)}
        for row, count in zip(rows, counts, strict=True)
    }


def _read_instances(document: Any, count: int) -> list[Instance]:
    if type(document) is not dict or (count and not document.keys() >= _MUST):
        raise ValueError("the facts of the instances are missing")
    names = [name for name in _FACTS if name in document]
    found = zip(*(columns.read(document[name], count) for name in names), strict=True)
    return [Instance(**dict(zip(names, facts, strict=True))) for facts in found]

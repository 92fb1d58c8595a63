# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Kept decisions: a row for each, and what all of them were made from.

They are added many at a time and never changed. What they were made from is one film of the hosts
after another, of which each decision needs the frames up to its own; a film goes when no decision
needs it any more.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from inventory.chunks import CHUNK, chunks
from inventory.decision_tables import decision_inputs, decision_instances, decisions
from inventory.tables import utc_moment

# In bytes. Servers may refuse statements of more than a megabyte, and bytes grow when quoted.
PIECE = 500_000
MOST_PIECES = 100
# What is not needed any more may be needed in a moment: frames come before the decisions that were
# made on later ones. In seconds, longer than any request takes.
SETTLED = 300.0
MOST_LISTED = 10_000
_LONGEST = 255
_LONGEST_UUID = 36
# Any larger number is none of a row.
_MOST_DIGITS = 18
_SHOWN = [each for each in decisions.c if each is not decisions.c.document]


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision to be kept: when it was over, on the monotonic clock, and what it was, as bytes.

    hosts are those that were chosen for the instances.
    """

    film: str
    frame: int
    ended: float
    scheduler: str
    outcome: str
    milliseconds: float
    conflicts: int
    document: bytes
    request_id: str | None = None
    project_id: str | None = None
    instance_uuids: Sequence[str | None] = ()
    hosts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Frames:
    """Some frames of a film, the one of the lowest number of them, and all as bytes."""

    film: str
    first: int
    data: bytes


def add(connection: sa.Connection, decided: Sequence[Decided], frames: Sequence[Frames]) -> None:
    """Keep decisions, and frames, of which there must be some; does nothing if it has done it."""
    c = decision_inputs.c
    there = sa.exists().where(c.film == frames[0].film, c.first == frames[0].first, c.piece == 0)
    now, is_done = connection.execute(sa.select(utc_moment(), there)).one()
    if is_done:
        return
    connection.execute(sa.insert(decision_inputs), [*_pieces(frames, now)])
    if not decided:
        return
    connection.execute(sa.insert(decisions), [_row(each, now) for each in decided])
    numbers = _numbers(connection, decided)
    instances = [
        {"decision_id": numbers[each.film, each.frame], "instance_uuid": uuid}
        for each in decided
        # To MariaDB they are the same whatever their letter case, or their accents.
        for uuid in {
            uuid.casefold(): uuid for uuid in filter(None, reversed(each.instance_uuids))
        }.values()
        if len(uuid) <= _LONGEST_UUID and uuid.isascii()
    ]
    if instances:
        connection.execute(sa.insert(decision_instances), instances)


def find(connection: sa.Connection, text: str, limit: int = 20) -> list[sa.Row[Any]]:
    """Return decisions by their number, for an instance, or of a request, the newest first."""
    c = decisions.c
    of_instance = sa.select(decision_instances.c.decision_id).where(
        decision_instances.c.instance_uuid == text
    )
    wanted: list[sa.ColumnElement[bool]] = [c.id.in_(of_instance), c.request_id == text]
    if text.isdecimal() and len(text) <= _MOST_DIGITS:
        wanted.insert(0, c.id == int(text))
    # One after the other: each has an index, all at once have none.
    for each in wanted:
        found = connection.execute(_newest(limit).where(each)).all()
        if found:
            return [*found]
    return []


def listed(
    connection: sa.Connection,
    limit: int = 50,
    outcome: str | None = None,
    project_id: str | None = None,
    since: datetime | None = None,
) -> list[sa.Row[Any]]:
    """Return the newest decisions, the newest first, without their documents.

    since is in UTC, as decided_at is.
    """
    query = _newest(limit)
    if since is not None:
        query = query.where(decisions.c.decided_at >= since)
    if outcome is not None:
        query = query.where(decisions.c.outcome == outcome)
    if project_id is not None:
        query = query.where(decisions.c.project_id == project_id)
    return [*connection.execute(query).all()]


def document(connection: sa.Connection, number: int) -> bytes | None:
    """Return what a decision was, None if there is none of this number."""
    query = sa.select(decisions.c.document).where(decisions.c.id == number)
    found: bytes | None = connection.scalar(query)
    return found


def frames(connection: sa.Connection, film: str, last: int) -> list[bytes]:
    """Return all frames of a film up to a number and perhaps some more, as they were added.

    They are in no order, and some may be missing: those of a request that is not over yet, and
    those that a scheduler could not write.
    """
    c = decision_inputs.c
    query = sa.select(c.first, c.data).where(c.film == film, c.first <= last)
    rows = connection.execute(query.order_by(c.first, c.piece)).all()
    return [
        b"".join(row.data for row in pieces)
        for _, pieces in groupby(rows, key=lambda row: row.first)
    ]


def prune(connection: sa.Connection, max_age: float, max_number: int) -> bool:
    """Delete some of what is not to be kept any more; tell whether there may be more of it.

    Several may do so at a time.
    """
    (now,) = connection.execute(sa.select(utc_moment())).one()
    return _prune_decisions(connection, now - timedelta(seconds=max_age), max_number) or (
        _prune_inputs(connection, now - timedelta(seconds=SETTLED))
    )


def _pieces(frames: Iterable[Frames], now: datetime) -> Iterator[dict[str, Any]]:
    for each in frames:
        for number, start in enumerate(range(0, len(each.data), PIECE)):
            yield {
                "film": each.film,
                "first": each.first,
                "piece": number,
                "written_at": now,
                "data": each.data[start : start + PIECE],
            }


def _row(decided: Decided, now: datetime) -> dict[str, Any]:
    row = asdict(decided)
    for name in ("request_id", "project_id"):
        row[name] = row[name] and row[name][:_LONGEST]
    hosts = ", ".join(dict.fromkeys(decided.hosts))
    if len(hosts) > _LONGEST:
        hosts = f"{hosts[: _LONGEST - 5].rpartition(', ')[0]}, ..."
    return row | {
        "decided_at": now - timedelta(seconds=time.monotonic() - row.pop("ended")),
        "instances": len(row.pop("instance_uuids")),
        "hosts": hosts or None,
    }


def _numbers(
    connection: sa.Connection, decided: Sequence[Decided]
) -> Mapping[tuple[str, int], int]:
    """Return the numbers that decisions were given, by their frames."""
    c = decisions.c
    found: dict[tuple[str, int], int] = {}
    for film in {each.film for each in decided}:
        for some in chunks([each.frame for each in decided if each.film == film]):
            query = sa.select(c.film, c.frame, c.id).where(c.film == film, c.frame.in_(some))
            found |= {(row.film, row.frame): row.id for row in connection.execute(query)}
    return found


def _newest(limit: int) -> sa.Select[Any]:
    c = decisions.c
    return sa.select(*_SHOWN).order_by(c.decided_at.desc(), c.id.desc()).limit(limit)


def _prune_decisions(connection: sa.Connection, until: datetime, max_number: int) -> bool:
    c = decisions.c
    # By the index of times alone: the rows are large.
    beyond = sa.select(c.decided_at).order_by(c.decided_at.desc()).offset(max_number).limit(1)
    newest = connection.scalar(beyond)
    # Whoever else prunes waits here, and everybody locks them in the same order.
    old = sa.select(c.id).order_by(c.decided_at, c.id).limit(CHUNK).with_for_update()
    gone = [
        *connection.scalars(old.where(c.decided_at <= (max(until, newest) if newest else until)))
    ]
    if gone:
        of_them = decision_instances.c.decision_id.in_(gone)
        connection.execute(sa.delete(decision_instances).where(of_them))
        connection.execute(sa.delete(decisions).where(c.id.in_(gone)))
    return bool(gone)


def _prune_inputs(connection: sa.Connection, until: datetime) -> bool:
    """Delete some of a film that no decision needs, and to which nothing was added since."""
    c = decision_inputs.c
    needed = sa.exists().where(decisions.c.film == c.film).correlate(decision_inputs)
    unneeded = sa.select(c.film).where(~needed).group_by(c.film)
    film = connection.scalar(unneeded.having(sa.func.max(c.written_at) < until).limit(1))
    if film is None:
        return False
    # Every piece in the same order as whoever else prunes.
    query = sa.select(c.first).where(c.film == film).order_by(c.first, c.piece)
    firsts = [*connection.scalars(query.limit(MOST_PIECES).with_for_update())]
    if firsts:
        connection.execute(sa.delete(decision_inputs).where(c.film == film, c.first <= firsts[-1]))
    return True

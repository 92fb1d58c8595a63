# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A request that is sent again: which of its instances have claims and answers."""

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from inventory.claims.types import CONFIRMED, INSTANCE, ClaimLost, Identity
from inventory.errors import counted


class Outdated(Exception):
    """A later attempt of the same request has claimed already."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"a later attempt of the same request holds the claim of instance {uuid}")
        self.uuid = uuid


class PartlyAnswered(Exception):
    """Some instances of the request have an answer already: {uuid: answer}."""

    def __init__(self, answers: Mapping[str, str | None]) -> None:
        many = counted(len(answers), "instance of the request has", "instances of the request have")
        super().__init__(f"{many} been answered before")
        self.answers = answers


def same(rows: Iterable[sa.Row[Any]], identity: Identity) -> list[sa.Row[Any]]:
    """Return the claims of the same request; raise Outdated for one of a later attempt."""
    found: list[sa.Row[Any]] = []
    # Requests without an id cannot be compared.
    for row in rows if identity.request_id is not None else ():
        if (row.request_id, row.digest) == (identity.request_id, identity.digest):
            found.append(row)
        elif row.request_id == identity.request_id and row.attempt > identity.attempt:
            raise Outdated(row.instance_uuid)
    return found


def answers(claims: Iterable[sa.Row[Any]], identity: Identity) -> dict[str, str | None]:
    """Return the answers to a request by its claims: all of them, or none.

    Raises PartlyAnswered, and ClaimLost if what was answered before has ended.
    """
    # Alternates have no answer of their own.
    found = {row.instance_uuid: row.answer for row in claims if row.answer is not None}
    if not found.keys() >= {*identity.answered}:
        raise ClaimLost((), "an answer that was given before has ended", INSTANCE)
    own = {uuid: found[uuid] for uuid in identity.uuids if uuid in found}
    if own and own.keys() < {*identity.uuids}:
        raise PartlyAnswered(own)
    return own


def apart(
    rows: Iterable[sa.Row[Any]], identity: Identity
) -> tuple[list[sa.Row[Any]], list[sa.Row[Any]]]:
    """Return the claims of its instances, and those to renew of instances answered before."""
    rows = [*rows]
    own = [row for row in rows if row.instance_uuid not in identity.answered]
    before = [row for row in same(rows, identity) if row.instance_uuid in identity.answered]
    return own, [row for row in before if row.state != CONFIRMED]

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The answers that claims keep, so that a request that is sent again gets the same one."""

from collections.abc import Iterable, Mapping

from inventory import stored_documents
from scheduler.objects.selection import Answer, Selection
from scheduler.wire.errors import InvalidInput
from scheduler.wire.replies import selections_from_json


def of_instances(texts: Mapping[str, str | None]) -> dict[str, list[Selection]]:
    """Return the answers by instance; raises InvalidInput for one that cannot be read."""
    return {uuid: _read(uuid, text) for uuid, text in texts.items()}


def in_order(uuids: Iterable[str | None], texts: Iterable[str | None]) -> Answer:
    """Return the answers for these instances; raises as of_instances() does."""
    return [_read(uuid, text) for uuid, text in zip(uuids, texts, strict=True)]


def _read(uuid: str | None, text: str | None) -> list[Selection]:
    found = stored_documents.read(
        _selections,
        text or "",
        f"The stored answer of the claim of instance {uuid}",
        "its request is refused when it is sent again. Run 'berthmaster claim release"
        f" {uuid}' if the instance is not there; a request with another id gets a new answer",
    )
    if found is None:
        # Where the instance is being built is unknown: another host might build it twice.
        raise InvalidInput(f"instance_uuids: the stored answer for instance {uuid} cannot be read")
    return found


def _selections(text: str) -> list[Selection]:
    found = selections_from_json(text)
    if not found:
        raise ValueError("it has no host")
    return found

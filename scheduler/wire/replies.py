# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Encode replies of select_destinations for the release of the caller, and decode them."""

import json
from typing import Any

from inventory.objects.field_types import NAME, TEXT, FieldType, list_of, nullable, text_of, typed
from inventory.objects.object_schema import Fields, ObjectSchema
from scheduler.objects.selection import SchedulerLimits, Selection
from scheduler.wire.arguments import SelectArguments, refusing_malformed
from scheduler.wire.request_schema import LIMITS, LIMITS_1_0, MAX_INSTANCES

Destinations = list[list[Selection]]


def _selection_schema(
    version: str, limits: ObjectSchema[SchedulerLimits]
) -> ObjectSchema[Selection]:
    # Callers fail where one of these keys is absent, except the zone: they look it up if it is
    # absent, but copy it if it is null.
    kinds = {
        **typed(TEXT, "compute_node_uuid cell_uuid"),
        **typed(NAME, "service_host nodename"),
        "limits": nullable(limits.kind),
        "allocation_request": nullable(text_of(10_000_000)),
        "allocation_request_version": nullable(NAME),
    }
    if version != "1.0":
        kinds["availability_zone"] = NAME
    return ObjectSchema(Selection, version, kinds)


SELECTION = _selection_schema("1.1", LIMITS)
# First RequestSpec of the releases that know these schemas, newest first.
_KNOWN_SINCE = (
    ((1, 13), SELECTION),
    ((1, 9), _selection_schema("1.0", LIMITS)),
    ((0, 0), _selection_schema("1.0", LIMITS_1_0)),
)


def encode_destinations(destinations: Destinations, request: SelectArguments) -> list[Any]:
    """Return lists of Selection or a dictionary for each instance, as the caller requests.

    A caller asks its conductor to downgrade versions that it does not know, and times out without
    one, so it gets only those that it knows.
    """
    if not request.return_objects:
        return [_as_dict(chosen) for chosen, *_ in destinations]
    version = request.spec_version or (0, 0)
    schema = next(schema for since, schema in _KNOWN_SINCE if version >= since)
    # Instances share their alternates.
    distinct = {id(each): each for selections in destinations for each in selections}
    written = {key: schema.write(each) for key, each in distinct.items()}
    return [[written[id(each)] for each in selections] for selections in destinations]


@refusing_malformed
def decode_destinations(reply: Any) -> Destinations:
    """Decode a reply of either form; raise InvalidInput."""
    return list(_REPLY.read(reply))


def selections_to_json(selections: list[Selection]) -> str:
    """Encode the reply for one instance, so that it can be repeated."""
    return json.dumps([SELECTION.data(each) for each in selections])


def selections_from_json(text: str) -> list[Selection]:
    """Decode the result of selections_to_json()."""
    return list(_SELECTIONS.read(json.loads(text)))


def _as_dict(chosen: Selection) -> Fields:
    """Return the form of 4.0 to 4.4, which has only the limits that are set."""
    limits = {} if chosen.limits is None else LIMITS_1_0.data(chosen.limits)
    return {
        "host": chosen.service_host,
        "nodename": chosen.nodename,
        "limits": {name: each for name, each in limits.items() if each is not None},
    }


def _read_selections(value: Any) -> list[Selection]:
    # A dictionary stands for one instance, and has the host under another name.
    if isinstance(value, dict):
        return [SELECTION.read({"service_host": value.get("host")} | value)]
    return list(_SELECTIONS.read(value))


_SELECTIONS = list_of(SELECTION.kind)
_REPLY = list_of(FieldType(_read_selections, _SELECTIONS.write), MAX_INSTANCES)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Answers to select_destinations: written for the age of the caller, read back by our client."""

import json
from typing import Any

from scheduler.objects.kinds import NAME, TEXT, Kind, list_of, nullable, text_of
from scheduler.objects.limits import SchedulerLimits
from scheduler.objects.selection import Selection
from scheduler.objects.shape import Fields, Shape
from scheduler.rpc.codec.arguments import SelectArguments
from scheduler.rpc.codec.refusal import refusing_malformed
from scheduler.rpc.codec.shapes import LIMITS, LIMITS_1_0, MOST_INSTANCES

Destinations = list[list[Selection]]


def _selection_shape(version: str, limits: Shape[SchedulerLimits]) -> Shape[Selection]:
    # The caller stumbles over any of these keys that is absent, save the zone: that one it looks
    # up itself when it is absent, but copies when it is null.
    kinds = {
        "compute_node_uuid": TEXT,
        "service_host": NAME,
        "nodename": NAME,
        "cell_uuid": TEXT,
        "limits": nullable(limits.kind),
        "allocation_request": nullable(text_of(10_000_000)),
        "allocation_request_version": nullable(NAME),
    }
    if version != "1.0":
        kinds["availability_zone"] = NAME
    return Shape(Selection, version, kinds)


SELECTION = _selection_shape("1.1", LIMITS)
# The first RequestSpec of the release that knows the versions, newest first.
_KNOWN_SINCE = (
    ((1, 13), SELECTION),
    ((1, 9), _selection_shape("1.0", LIMITS)),
    ((0, 0), _selection_shape("1.0", LIMITS_1_0)),
)


def encode_destinations(destinations: Destinations, asked: SelectArguments) -> list[Any]:
    """Return what the caller asked for: lists of Selection, or a dictionary per instance.

    Nothing is sent in a version that the caller does not know: it would ask its conductor for a
    downgrade, and time out without one.
    """
    if not asked.return_objects:
        return [_as_dict(chosen) for chosen, *_ in destinations]
    version = asked.spec_version or (0, 0)
    shape = next(shape for since, shape in _KNOWN_SINCE if version >= since)
    return [[shape.write(each) for each in selections] for selections in destinations]


@refusing_malformed
def decode_destinations(reply: Any) -> Destinations:
    """Read an answer of either form; raises InvalidInput for what is none."""
    return list(_ANSWER.read(reply))


def selections_to_json(selections: list[Selection]) -> str:
    """Write the answer for one instance, so that it can be given again."""
    return json.dumps([SELECTION.data(each) for each in selections])


def selections_from_json(text: str) -> list[Selection]:
    """Read what selections_to_json() wrote."""
    return list(_SELECTIONS.read(json.loads(text)))


def _as_dict(chosen: Selection) -> Fields:
    """Return the form of 4.0 to 4.4, which holds only the limits that are set."""
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
_ANSWER = list_of(Kind(_read_selections, _SELECTIONS.write), MOST_INSTANCES)

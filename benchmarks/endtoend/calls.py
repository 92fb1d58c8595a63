# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is asked: a call of Nova 34 as it was captured, each time for other instances."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from benchmarks.nova import ROOT

_WIRE = ROOT / "tests" / "fixtures" / "wire"
_PLAIN = "call_select_destinations_4.5_objects_alternates"
_GROUPED = "call_select_destinations_4.5_server_group"
# What each sending has of its own.
_IDS = ("_msg_id", "_reply_q", "_unique_id")
# Members of a server group, and groups whose members are asked for by turns.
MEMBERS, GROUPS = 8, 64
Call = dict[str, Any]
Ask = Callable[[Call], Any]


def plain(instances: int) -> Iterator[Call]:
    """Yield calls without end, each for so many instances."""
    message = _captured(_PLAIN)
    while True:
        yield a_call(message, _uuids(instances))


def grouped() -> Iterator[Call]:
    """Yield calls without end, each for one member of a group that keeps its members apart."""
    message = _captured(_GROUPED)
    while True:
        groups = [_a_group(message) for _ in range(GROUPS)]
        for number in range(MEMBERS):
            for group in groups:
                yield a_call(message, [group["nova_object.data"]["members"][number]], group)


def a_call(message: Call, uuids: Sequence[str], group: Call | None = None) -> Call:
    """Return a captured call for other instances, and for another group if it is about one."""
    arguments = message["args"]
    spec = arguments["spec_obj"]
    data = {
        **spec["nova_object.data"],
        "instance_uuid": uuids[0],
        "num_instances": len(uuids),
        "instance_group": group,
    }
    if group:
        data["scheduler_hints"] = {"group": [group["nova_object.data"]["uuid"]]}
    spec = {**spec, "nova_object.data": data}
    return {
        **message,
        "_context_request_id": f"req-{uuid4()}",
        "args": {**arguments, "instance_uuids": list(uuids), "spec_obj": spec},
    }


def context_of(call: Call) -> dict[str, Any]:
    """Return the context of a call as callers hand it to oslo.messaging."""
    prefix = "_context_"
    found = {name: each for name, each in call.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): each for name, each in found.items()}


def _a_group(message: Call) -> Call:
    group = message["args"]["spec_obj"]["nova_object.data"]["instance_group"]
    data = {
        **group["nova_object.data"],
        "uuid": str(uuid4()),
        "policy": "anti-affinity",
        "policies": ["anti-affinity"],
        "members": _uuids(MEMBERS),
        "hosts": [],
    }
    return {**group, "nova_object.data": data}


def _uuids(number: int) -> list[str]:
    return [str(uuid4()) for _ in range(number)]


def _captured(name: str) -> Call:
    message: Call = json.loads((_WIRE / f"{name}.json").read_text())["message"]
    return {name: each for name, each in message.items() if name not in _IDS}

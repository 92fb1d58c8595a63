# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The captured notifications as ours are meant to be, and the calls that they are about."""

from typing import Any

from scheduler.objects.request_spec import RequestSpec
from scheduler.wire.arguments import decode_select_arguments
from tests.unit.scheduler.wire import wire_samples

FORMATS = ("legacy", "versioned")
PHASES = ("start", "end")
CALLS = {
    "simple": "call_select_destinations_4.5_objects_no_alternates",
    "full_spec": "call_select_destinations_4.0_full_spec",
}
# Where the instances of the full request went, both times.
CHOSEN = "compute3"

# ---- What is meant to differ from the captured payloads ------------------------------------------
ABSENT = object()
# Nova reads an image that comes in a dictionary as Glance has it, and loses what is a list by then.
_LISTS = {
    "hw_numa_cpus": [[0, 1], [2, 3]],
    "hw_numa_mem": [1024, 1024],
    "traits_required": ["HW_CPU_X86_AVX2"],
}
# What the flavor's row in Nova's database says is not read.
_ROW = {"instance_type": {"created_at": ABSENT, "updated_at": ABSENT}}
_MEANT: dict[tuple[str, str], dict[str, Any]] = {
    ("legacy", "simple"): _ROW,
    ("legacy", "full_spec"): _ROW | {"image": {"properties": _LISTS}},
    ("versioned", "full_spec"): {
        "image": {"properties": _LISTS},
        # Nova sends the policy in one of the two fields if the group came in a dictionary.
        "instance_group": {"policies": ["anti-affinity"]},
    },
}
# Making the versioned payload of .start fills this in, and the legacy .end shows it.
_MEANT_AT_THE_END = {"numa_topology": {"instance_uuid": ABSENT}}
# --------------------------------------------------------------------------------------------------


def request(kind: str, phase: str) -> RequestSpec:
    """Return what the call asked for, as it is known in the phase."""
    spec = decode_select_arguments(wire_samples.arguments(CALLS[kind])).spec
    hosts = [CHOSEN, CHOSEN] if phase == "end" else []
    return spec.for_instance(spec.instance_uuid, hosts)


def payload(form: str, phase: str, kind: str) -> dict[str, Any]:
    """Return a captured payload with what is meant to differ from it."""
    captured: dict[str, Any] = wire_samples.sample(f"notification_{form}_{phase}_{kind}")["message"]
    found: dict[str, Any] = captured["payload"]
    if form == "versioned":
        _change(found, _MEANT.get((form, kind), {}))
        return found
    spec = found["request_spec"]
    properties = spec["instance_properties"]
    properties["pci_requests"] = _flattened(properties["pci_requests"])
    _change(spec, _MEANT[form, kind])
    if properties["numa_topology"] and phase == "end":
        _change(properties, _MEANT_AT_THE_END)
    return found


def _change(tree: dict[str, Any], changes: dict[str, Any]) -> None:
    fields = tree.get("nova_object.data", tree)
    for name, change in changes.items():
        if isinstance(change, dict):
            _change(fields[name], change)
        elif change is ABSENT:
            del fields[name]
        else:
            fields[name] = change


def _flattened(leak: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an object of which Nova shows the inside: the user's token and all."""
    assert leak["_context"]["auth_token"] == "token1"
    data = {name: each for name, each in leak.items() if name.startswith("_obj_")}
    found = {name.removeprefix("_obj_"): each for name, each in data.items()}
    return found | (
        {"requests": [_flattened(each) for each in found["requests"]]}
        if "requests" in found
        else {}
    )

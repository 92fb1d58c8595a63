# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The arguments of select_destinations, in all the shapes that RPC 4.0 to 4.5 gave them."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from scheduler.objects.image_meta import ImageMetaProps
from scheduler.objects.kinds import INT32, TRUTH, UUID, Malformed, list_of, read_under, shown
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.shape import VERSION_KEY, Fields
from scheduler.rpc.codec.legacy import read_legacy
from scheduler.rpc.codec.refusal import refusing_malformed
from scheduler.rpc.codec.shapes import MOST_INSTANCES, REQUEST_SPEC

_UUIDS = list_of(UUID, MOST_INSTANCES)
# What an instance may need of a node whose columns count up to INT32: the other half is for what is
# there already.
MOST_OF_ONE = 2**30


@dataclass(frozen=True, slots=True)
class SelectArguments:
    """One request: an entry of the answer is due for each of ``instance_uuids``, in their order.

    A uuid is None where an old caller only said how many instances it wants. ``spec_version`` is
    that of the caller's RequestSpec, which tells its age; None for callers from before Mitaka.
    """

    spec: RequestSpec
    instance_uuids: list[str | None]
    return_objects: bool = False
    return_alternates: bool = False
    spec_version: tuple[int, int] | None = None

    @property
    def digest(self) -> str:
        """What is the same for the same request, sent twice, and differs for all others.

        It is taken from what was understood. The message itself may differ: Nova writes sets, and
        the names of changed fields, in the order that its process happens to have them.
        """
        asked = (self.spec, self.instance_uuids, self.return_objects, self.return_alternates)
        return hashlib.sha256(_CANONICAL.encode(asked).encode()).hexdigest()


@refusing_malformed
def decode_select_arguments(arguments: Mapping[str, Any]) -> SelectArguments:
    """Read the keyword arguments of a call or a cast; raises InvalidInput, nothing else.

    ``spec_obj`` makes it 4.3 or later, otherwise the two dictionaries of 4.0 are read.
    """
    version = None
    if "spec_obj" in arguments:
        spec = read_under("spec_obj", REQUEST_SPEC.read, arguments["spec_obj"])
        version = _minor_version(arguments["spec_obj"])
    else:
        spec = read_legacy(arguments.get("request_spec"), arguments.get("filter_properties"))
    uuids = _instance_uuids(arguments, spec)
    way = ("spec_obj", "flavor") if "spec_obj" in arguments else ("request_spec", "instance_type")
    _check_sizes(spec, len(uuids), way)
    return SelectArguments(
        spec,
        uuids,
        return_objects=_flag(arguments, "return_objects"),
        return_alternates=_flag(arguments, "return_alternates"),
        spec_version=version,
    )


def encode_select_arguments(asked: SelectArguments) -> Fields:
    """Return the keyword arguments of RPC 4.5."""
    return {
        "spec_obj": encode_request_spec(asked.spec),
        "instance_uuids": None if None in asked.instance_uuids else asked.instance_uuids,
        "return_objects": asked.return_objects,
        "return_alternates": asked.return_alternates,
    }


def encode_request_spec(spec: RequestSpec) -> Fields:
    """Return the primitive of RequestSpec 1.15."""
    return REQUEST_SPEC.write(spec)


@refusing_malformed
def decode_request_spec(primitive: Any) -> RequestSpec:
    """Read a RequestSpec of any minor version; raises InvalidInput."""
    return REQUEST_SPEC.read(primitive)


def _instance_uuids(arguments: Mapping[str, Any], spec: RequestSpec) -> list[str | None]:
    uuids = arguments.get("instance_uuids")
    uuids = [] if uuids is None else read_under("instance_uuids", _UUIDS.read, uuids)
    # As databases compare them.
    if len({uuid.strip().lower() for uuid in uuids}) < len(uuids):
        raise Malformed("names an instance twice").under("instance_uuids")
    # Stored specs keep the number of the first boot: it only counts where there are no uuids.
    return uuids or [spec.instance_uuid] + [None] * (spec.num_instances - 1)


def _check_sizes(spec: RequestSpec, number: int, way: tuple[str, ...]) -> None:
    """Refuse what the columns of a node could not count beside what is used there already."""
    disk_gb = -(-spec.disk_mb // 1024)
    for name, size in (("vcpus", spec.vcpus), ("memory_mb", spec.memory_mb), ("root_gb", disk_gb)):
        if size > MOST_OF_ONE:
            problem = f"{size} is more than {MOST_OF_ONE}"
        elif number * size > INT32:
            problem = f"{number} instances of {size} need more than {INT32} together"
        else:
            continue
        if name == "root_gb":
            problem += ", ephemeral disk and swap included"
        raise Malformed(problem).under(*way, name)


def _as_json(value: Any) -> Any:
    """Return a set in one order only, and the values of an object without their names."""
    made = type(value)
    plain = _PLAIN.get(made)
    if plain is None:
        plain = _PLAIN[made] = attrgetter(*(each.name for each in fields(made)))
    return plain(value)


_PLAIN: dict[type, Callable[[Any], Any]] = {
    set: sorted,
    ImageMetaProps: lambda properties: dict(properties.items()),
}
_CANONICAL = json.JSONEncoder(sort_keys=True, check_circular=False, default=_as_json)


def _flag(arguments: Mapping[str, Any], name: str) -> bool:
    flag = arguments.get(name)
    return flag is not None and bool(read_under(name, TRUTH.read, flag))


def _minor_version(primitive: Mapping[str, Any]) -> tuple[int, int] | None:
    version = primitive.get(VERSION_KEY)
    if version is None:
        return None
    if isinstance(version, str):
        major, _, minor = version.partition(".")
        try:
            return int(major), int(minor.partition(".")[0])
        except ValueError:
            pass
    raise Malformed(f"RequestSpec is of version {shown(version)}").under("spec_obj")

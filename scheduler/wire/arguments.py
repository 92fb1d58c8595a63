# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decode and encode the arguments of select_destinations, RPC 4.0 to 4.5."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from operator import attrgetter
from typing import Any, ParamSpec, TypeVar

from inventory.errors import counted
from inventory.fits import whole_gb
from inventory.objects.field_types import (
    INSTANCE_UUID,
    INT32,
    TRUTH,
    Malformed,
    list_of,
    read_under,
    shown,
)
from inventory.objects.object_schema import VERSION_KEY, Fields
from scheduler.objects.flavor_and_image import ImageMetaProps
from scheduler.objects.request_spec import RequestSpec
from scheduler.wire.context import size_of
from scheduler.wire.errors import InvalidInput
from scheduler.wire.legacy_requests import read_legacy
from scheduler.wire.request_schema import MAX_INSTANCES, REQUEST_SPEC

# Of a request: ten thousand uuids are 400 KB. What a request has is written for each instance.
MAX_BYTES = 2**20
P = ParamSpec("P")
T = TypeVar("T")


def refusing_malformed(decode: Callable[P, T]) -> Callable[P, T]:
    """Have a decoder raise InvalidInput, which names the field, for malformed input."""

    @wraps(decode)
    def decode_or_refuse(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return decode(*args, **kwargs)
        except Malformed as wrong:
            raise InvalidInput(str(wrong)) from None

    return decode_or_refuse


_UUIDS = list_of(INSTANCE_UUID, MAX_INSTANCES)
# Most of a resource that one instance may need: columns of nodes count up to INT32, and the other
# half is for the instances there.
MAX_OF_ONE = 2**30


def check_size(context: Mapping[str, Any]) -> None:
    """Raise InvalidInput for a request that is too large to be read beside others."""
    size = size_of(context)
    if size > MAX_BYTES:
        raise InvalidInput(f"the message has {size} bytes, at most {MAX_BYTES} are allowed")


@dataclass(frozen=True, slots=True)
class SelectArguments:
    """One request: the reply has an entry for each of ``instance_uuids``, in their order.

    A uuid is None where an old caller only sent the number of instances. ``spec_version`` is that
    of the caller's RequestSpec, None for callers from before Mitaka.
    """

    spec: RequestSpec
    instance_uuids: list[str | None]
    return_objects: bool = False
    return_alternates: bool = False
    spec_version: tuple[int, int] | None = None

    @property
    def digest(self) -> str:
        """The same text for the same request sent twice, another one for all others.

        The messages may differ: Nova writes sets, and the names of changed fields, in any order.
        """
        decoded = (self.spec, self.instance_uuids, self.return_objects, self.return_alternates)
        return hashlib.sha256(_CANONICAL.encode(decoded).encode()).hexdigest()


@refusing_malformed
def decode_select_arguments(arguments: Mapping[str, Any]) -> SelectArguments:
    """Decode the keyword arguments of a call or a cast; raise InvalidInput, nothing else.

    Callers of 4.3 and later send ``spec_obj``, older ones the two dictionaries of 4.0.
    """
    version, path = None, ("request_spec", "instance_type")
    if "spec_obj" in arguments:
        spec = read_under("spec_obj", REQUEST_SPEC.read, arguments["spec_obj"])
        version, path = _minor_version(arguments["spec_obj"]), ("spec_obj", "flavor")
    else:
        spec = read_legacy(arguments.get("request_spec"), arguments.get("filter_properties"))
    uuids = _instance_uuids(arguments, spec)
    _check_sizes(spec, len(uuids), path)
    return SelectArguments(
        spec,
        uuids,
        return_objects=_flag(arguments, "return_objects"),
        return_alternates=_flag(arguments, "return_alternates"),
        spec_version=version,
    )


def encode_select_arguments(request: SelectArguments) -> Fields:
    """Return the keyword arguments of RPC 4.5."""
    return {
        "spec_obj": REQUEST_SPEC.write(request.spec),
        "instance_uuids": None if None in request.instance_uuids else request.instance_uuids,
        "return_objects": request.return_objects,
        "return_alternates": request.return_alternates,
    }


def _instance_uuids(arguments: Mapping[str, Any], spec: RequestSpec) -> list[str | None]:
    uuids = arguments.get("instance_uuids")
    uuids = [] if uuids is None else read_under("instance_uuids", _UUIDS.read, uuids)
    if len({*uuids}) < len(uuids):
        raise Malformed("names an instance twice").under("instance_uuids")
    # Stored specs keep the number of the first boot: it only counts where there are no uuids.
    return uuids or [spec.instance_uuid] + [None] * (spec.num_instances - 1)


def _check_sizes(spec: RequestSpec, number: int, path: tuple[str, ...]) -> None:
    """Raise Malformed for sizes that the columns of a node cannot count."""
    vcpus, memory_mb, disk_mb = spec.flavor_size
    sizes = [("vcpus", vcpus), ("memory_mb", memory_mb), ("root_gb", whole_gb(disk_mb))]
    # What extra specs give in place of these.
    given = max(spec.vcpus, spec.memory_mb, whole_gb(spec.disk_mb))
    for name, size in (*sizes, ("extra_specs", given)):
        if size > MAX_OF_ONE:
            problem = f"{size} is more than {MAX_OF_ONE}"
        elif number * size > INT32:
            problem = f"{counted(number, 'instance')} of {size} need more than {INT32} together"
        else:
            continue
        if name == "root_gb":
            problem += ", ephemeral disk and swap included"
        raise Malformed(problem).under(*path, name)


def _as_json(value: Any) -> Any:
    """Return a set in one order only, and the values of an object without their names."""
    made = type(value)
    if made not in _TO_JSON:
        _TO_JSON[made] = attrgetter(*(each.name for each in fields(made)))
    return _TO_JSON[made](value)


_TO_JSON: dict[type, Callable[[Any], Any]] = {
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

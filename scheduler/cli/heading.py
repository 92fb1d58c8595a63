# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The lines above what is told of a kept decision: what was asked for, and what came of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scheduler.course import FAILED, GIVEN_UP, INVALID, NOTHING, PLACED, REFUSED, TOO_LATE
from scheduler.decision.outcome import Decision
from scheduler.keeping.recalled import Recalled
from scheduler.objects.destination import Destination
from scheduler.objects.instance_group import InstanceGroup
from scheduler.objects.request_spec import RequestSpec

_WORDS = {
    GIVEN_UP: "given up: other requests were faster to claim the hosts, each time",
    TOO_LATE: "too late: the caller was not waiting any more",
    INVALID: "refused as it is: it came after a later attempt of its own",
    FAILED: "failed with an error, which is in the scheduler's log",
    NOTHING: "nothing: the driver chose no host",
}
# So many names are told of a list.
_MOST = 5


def heading(recalled: Recalled) -> list[str]:
    """Return in some lines what was asked for and what came of it."""
    record = recalled.record
    spec, flavor = record.request.spec, record.request.spec.flavor
    lines = [
        _title(recalled),
        f"Asked for: {len(record.request.instance_uuids)} x {flavor.vcpus} vCPUs,"
        f" {flavor.memory_mb} MB of memory, {spec.disk_mb} MB of disk"
        + (f" (flavor {flavor.name})" if flavor.name else ""),
    ]
    lines += _conditions(spec)
    lines.append(f"Outcome: {outcome(record.outcome, record.decision)}")
    took = f"Took {1000 * record.total:.1f} ms on a view {record.view_age:.1f} s old"
    if record.conflicts:
        took += f"; claims lost to other requests on the way: {record.conflicts}"
    lines.append(took)
    lines += [f"Warning: {each}" for each in record.decision.warnings]
    return lines


def outcome(word: str, decision: Decision) -> str:
    """Say in words how a request ended."""
    shortage = decision.shortage
    if shortage is not None and word == REFUSED:
        which = f" for instance {shortage.index + 1}" if shortage.index else ""
        return f"refused: no host{which}; the tenant was told {shortage.reason!r}"
    hosts = several(dict.fromkeys(each.chosen.host for each in decision.placements))
    if word == PLACED:
        return f"placed on {hosts}"
    told = _WORDS.get(word, word)
    return f"{told} (chosen was {hosts})" if hosts else told


def several(names: Iterable[str]) -> str:
    """Return the first of some names, and how many more there are."""
    listed = [*names]
    more = len(listed) - _MOST
    return ", ".join(listed[:_MOST]) + (f" and {more} more" if more > 0 else "")


def _title(recalled: Recalled) -> str:
    caller = recalled.record.caller
    parts = [f"Decision {recalled.number}" if recalled.number is not None else "Decision"]
    if recalled.decided_at is not None:
        parts.append(f"of {recalled.decided_at:%Y-%m-%d %H:%M:%S} UTC")
    if recalled.scheduler:
        parts.append(f"by scheduler {recalled.scheduler}")
    if caller.request_id:
        parts.append(f"for {caller.request_id}")
    return " ".join(parts)


def _conditions(spec: RequestSpec) -> Iterator[str]:
    """Yield a line for each kind of condition, besides its size, that the request makes."""
    where = "; ".join(_where(spec))
    if where:
        yield f"Where: {where}"
    image = dict(spec.image.properties.items()) if spec.image is not None else {}
    hints = {name: several(map(str, values)) for name, values in spec.scheduler_hints.items()}
    for name, pairs in (
        ("Extra specs", spec.flavor.extra_specs or {}),
        ("Hints", hints),
        ("Image properties", image),
    ):
        if pairs:
            yield f"{name}: {_pairs(pairs)}"


def _where(spec: RequestSpec) -> Iterator[str]:
    if spec.is_rebuild:
        yield "rebuilt where it is"
    if spec.availability_zone:
        yield f"zone {spec.availability_zone}"
    named: Sequence[tuple[str, Iterable[str] | None]] = (
        ("forced hosts", spec.force_hosts),
        ("forced nodes", spec.force_nodes),
        ("not on", spec.ignore_hosts),
        ("tried before", [each.host or "" for each in spec.retry.hosts] if spec.retry else None),
    )
    yield from (f"{what} {several(names)}" for what, names in named if names)
    if spec.requested_destination is not None:
        yield from _destination(spec.requested_destination)
    if spec.instance_group is not None:
        yield _group(spec.instance_group)


def _destination(wanted: Destination) -> Iterator[str]:
    place = wanted.host or wanted.node
    if place:
        yield f"destination {place}"
    for what, aggregates in (
        ("in aggregates", wanted.aggregates),
        ("in none of the aggregates", sorted(wanted.forbidden_aggregates or ())),
    ):
        if aggregates:
            yield f"{what} {several(aggregates)}"


def _group(group: InstanceGroup) -> str:
    hosts = several(sorted({*group.hosts})) or "no host"
    return f"server group {group.name or group.uuid} ({group.policy}), which is on {hosts}"


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())

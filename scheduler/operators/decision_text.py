# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a saved decision was about and how it ended, in lines for people."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from inventory.errors import counted
from inventory.objects.instance_group import InstanceGroup
from inventory.pci_pools import described
from scheduler.decision.types import Decision
from scheduler.objects.request_spec import Destination, RequestSpec
from scheduler.request_trace import FAILED, GIVEN_UP, INVALID, NOTHING, PLACED, REFUSED, TOO_LATE

if TYPE_CHECKING:
    # It brings SQLAlchemy, for which a command would wait that saves no decision.
    from scheduler.history.saved_decision import SavedDecision

_OUTCOMES = {
    GIVEN_UP: "given up: other requests claimed the chosen hosts first, on every attempt",
    TOO_LATE: "too late: the caller no longer waited for the answer",
    INVALID: "refused as invalid: it came after a later attempt of the same request",
    FAILED: "failed with an error, which is in the scheduler's log",
    NOTHING: "nothing: the driver chose no host",
}
# The most names of a list to show.
_MAX_NAMES = 5


def format_heading(saved: "SavedDecision") -> list[str]:
    """Return lines with the request of a saved decision, its outcome and its warnings."""
    record = saved.record
    spec, flavor = record.request.spec, record.request.spec.flavor
    named = f" (flavor {flavor.name})" if flavor.name else ""
    conflicts = f"; claims lost to other requests: {record.conflicts}" if record.conflicts else ""
    return [
        _title(saved),
        f"Request: {len(record.request.instance_uuids)} x {counted(flavor.vcpus, 'vCPU')},"
        f" {flavor.memory_mb} MB of memory, {spec.disk_mb} MB of disk{_devices(spec)}{named}",
        *_conditions(spec),
        f"Outcome: {_outcome(record.outcome, record.decision)}",
        f"Took {1000 * record.total:.1f} ms on a host cache {record.view_age:.1f} s old{conflicts}",
        *(f"Warning: {each}" for each in record.decision.warnings),
    ]


def _devices(spec: RequestSpec) -> str:
    """Return the PCI devices of a request after a comma, "" without any."""
    return "".join(f", {each.count} of {described(each.spec)}" for each in spec.devices)


def _title(saved: "SavedDecision") -> str:
    caller = saved.record.caller
    parts = [f"Decision {saved.number}" if saved.number is not None else "Decision"]
    if saved.decided_at is not None:
        parts.append(f"of {saved.decided_at:%Y-%m-%d %H:%M:%S} UTC")
    if saved.scheduler:
        parts.append(f"by scheduler {saved.scheduler}")
    if caller.request_id:
        parts.append(f"for {caller.request_id}")
    return " ".join(parts)


def _outcome(outcome: str, decision: Decision) -> str:
    shortage = decision.shortage
    if shortage is not None and outcome == REFUSED:
        which = f" for instance {shortage.index + 1}" if shortage.index else ""
        return f"refused: no host{which}; the tenant was told {shortage.reason!r}"
    hosts = _first_names(dict.fromkeys(each.chosen.host for each in decision.placements))
    if outcome == PLACED:
        return f"placed on {hosts}"
    text = _OUTCOMES.get(outcome, outcome)
    return f"{text} (chosen: {hosts})" if hosts else text


def _first_names(names: Iterable[str]) -> str:
    """Return the first of some names, in their order, and how many more there are."""
    listed = [*names]
    more = len(listed) - _MAX_NAMES
    return ", ".join(listed[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _conditions(spec: RequestSpec) -> Iterator[str]:
    """Yield a line for each kind of condition of a request besides its size."""
    where = "; ".join(_where(spec))
    if where:
        yield f"Where: {where}"
    image = dict(spec.image.properties.items()) if spec.image is not None else {}
    hints = {name: _first_names(map(str, hint)) for name, hint in spec.scheduler_hints.items()}
    for title, values in (
        ("Extra specs", spec.flavor.extra_specs or {}),
        ("Hints", hints),
        ("Image properties", image),
    ):
        if values:
            yield f"{title}: " + ", ".join(f"{name}={value}" for name, value in values.items())


def _where(spec: RequestSpec) -> Iterator[str]:
    if spec.is_rebuild:
        yield "rebuilt on its host"
    if spec.availability_zone:
        yield f"zone {spec.availability_zone}"
    destination = spec.requested_destination or Destination()
    host = destination.host or destination.node
    named: Sequence[tuple[str, Iterable[str] | None]] = (
        ("forced hosts", spec.force_hosts),
        ("forced nodes", spec.force_nodes),
        ("not on", spec.ignore_hosts),
        ("tried before", [each.host or "" for each in spec.retry.hosts] if spec.retry else None),
        ("destination", [host] if host else None),
        ("in aggregates", destination.aggregates),
        ("not in aggregates", sorted(destination.forbidden_aggregates or ())),
    )
    yield from (f"{what} {_first_names(names)}" for what, names in named if names)
    if spec.instance_group is not None:
        yield _group(spec.instance_group)


def _group(group: InstanceGroup) -> str:
    hosts = _first_names(sorted({*group.hosts})) or "no host"
    return f"server group {group.name or group.uuid} ({group.policy}), members on {hosts}"


def format_weight(value: float | None) -> str:
    """Return a weight with three places, an empty text for None."""
    # Adding zero turns -0.0, which a negative multiplier makes of 0, into 0.0.
    return "" if value is None else f"{value + 0.0:.3f}"

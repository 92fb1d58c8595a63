# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The values of a decision: placements or a failure, with steps, weights and reasons."""

from collections.abc import Mapping
from dataclasses import dataclass

from inventory.objects.amounts import NOTHING, Amounts
from inventory.objects.standby import REQUIRED

# Plug-ins may import it from here.
from scheduler.base_plugin import ResourceShortfall as ResourceShortfall
from scheduler.hosts.host_state import Candidate, Consumption
from scheduler.objects.request_spec import RequestSpec


# Steps, weighed hosts and placements are not frozen, since a decision may have thousands of them,
# and it takes five times as long to make a frozen one.
@dataclass(slots=True)
class Step:
    """One filter, or one rule of the prefilter, with the number of hosts before and after it."""

    name: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.name} {self.before}->{self.after}"


@dataclass(slots=True)
class WeighedHost:
    """The total weight of a host, with the share of every weigher after its multiplier."""

    host: str
    nodename: str
    total: float
    shares: Mapping[str, float]


@dataclass(slots=True)
class PlannedStandby:
    """The standby of one instance, whose place is in the failure domains.

    host is None where there is none, for a reason. more is what its host has to hold more than
    before. evacuates is the id of the node that the instance has lost. place is the uuid of the
    reserved place that the instance is in, if that has the standby.
    """

    domains: tuple[str, ...]
    size: Amounts
    host: Candidate | None = None
    reason: str | None = None
    more: Amounts = NOTHING
    evacuates: int | None = None
    place: str | None = None


@dataclass(frozen=True, slots=True)
class OtherStandby:
    """The standby of another member of the server group, which may be found anew elsewhere.

    It is a row by its id, of an instance or of the reserved place that the member is in. It is held
    on the host, and covers the loss of place_node_id. spec is the request to evacuate the member.
    by_hint: it is that of an instance that a hint different_host keeps apart.
    """

    row_id: int
    instance_uuid: str
    member: str
    of_place: bool
    place_node_id: int
    node_id: int
    host: str
    domains: tuple[str, ...]
    size: Amounts
    mode: str
    project_id: str | None
    spec: RequestSpec
    by_hint: bool = False

    @property
    def is_required(self) -> bool:
        return self.of_place or self.mode == REQUIRED


@dataclass(frozen=True, slots=True)
class MovedStandby:
    """The standby of another member, and where it is from now on; no host if it is given up."""

    before: OtherStandby
    after: PlannedStandby


@dataclass(slots=True)
class Placement:
    """Where one instance goes, and what it consumes there; a rebuild consumes nothing.

    place is the uuid of the reserved place that it takes, which has held what it consumes. A
    protected instance has a standby.
    """

    instance_uuid: str | None
    chosen: Candidate
    steps: tuple[Step, ...]
    weighed: tuple[WeighedHost, ...]
    alternates: tuple[Candidate, ...] = ()
    taken: Consumption | None = None
    place: str | None = None
    standby: PlannedStandby | None = None


@dataclass(frozen=True, slots=True)
class PlacementFailure:
    """Why a request failed: the instance without a host, and the steps that left none."""

    index: int
    instance_uuid: str | None
    steps: tuple[Step, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one filter refuses one host."""

    host: str
    nodename: str
    filter: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a request: placements for all of its instances, or the failure."""

    placements: tuple[Placement, ...] = ()
    shortage: PlacementFailure | None = None
    warnings: tuple[str, ...] = ()
    seed: int = 0
    hosts: int = 0
    # Standbys of others that had to make room.
    moved: tuple[MovedStandby, ...] = ()

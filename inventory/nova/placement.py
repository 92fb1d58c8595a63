# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Placement: what its providers have, who uses it, and how allocations are written.

Each method raises PlacementUnavailable, or PlacementRefused for what is not there.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from oslo_config import cfg

from inventory.nova.allocation_audit import PlacementRecords
from inventory.nova.candidates import Candidates, RequestGroups
from inventory.nova.placement_errors import PlacementRefused
from inventory.nova.placement_session import MICROVERSION, PlacementSession

Resources = Mapping[str, int]
T = TypeVar("T")
# Requests for providers one by one.
_AT_A_TIME = 8


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The microversions that a Placement knows, such as 1.0 and 1.39."""

    minimum: str
    maximum: str

    @property
    def is_enough(self) -> bool:
        """Whether it knows the one that we ask with."""
        return _numbers(self.minimum) <= _numbers(MICROVERSION) <= _numbers(self.maximum)


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider; that of a compute node has the node's uuid and name."""

    uuid: str
    name: str
    generation: int
    parent_uuid: str | None
    root_uuid: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a provider has of a resource class."""

    total: int
    reserved: int
    max_unit: int
    allocation_ratio: float

    @property
    def capacity(self) -> int:
        """How much may be given away, overcommit included."""
        return int((self.total - self.reserved) * self.allocation_ratio)


@dataclass(frozen=True, slots=True)
class ConsumerAllocations:
    """What a consumer has, by provider. Without anything it has no generation and no owner."""

    resources: Mapping[str, Resources]
    generation: int | None
    project_id: str | None
    user_id: str | None


class PlacementClient:
    """Asks Placement as section [placement] says. Threads may share it."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Connect to nothing yet; raises PlacementMisconfigured."""
        self.session = PlacementSession(conf)

    def version(self) -> VersionRange:
        """Return which microversions it knows, which needs no role."""

        def build(found: Any) -> VersionRange:
            (version,) = found["versions"]
            return VersionRange(version["min_version"], version["max_version"])

        return self.session.read("/", build)

    def providers(self) -> Sequence[Provider]:
        """Return all providers, with one request."""
        return self.session.read(
            "/resource_providers",
            lambda found: [
                Provider(
                    uuid=each["uuid"],
                    name=each["name"],
                    generation=each["generation"],
                    parent_uuid=each["parent_provider_uuid"],
                    root_uuid=each["root_provider_uuid"],
                )
                for each in found["resource_providers"]
            ],
        )

    def allocations_of(self, provider_uuid: str) -> Mapping[str, Resources]:
        """Return who has what of a provider, by the uuid of the consumer."""
        return self.session.read(
            f"/resource_providers/{provider_uuid}/allocations",
            lambda found: {
                consumer: dict(each["resources"]) for consumer, each in found["allocations"].items()
            },
        )

    def records(self) -> PlacementRecords:
        """Return who has what of all providers, with one request for each, some at a time."""
        providers = self.providers()
        uuids = [each.uuid for each in providers]
        allocations = _of_each(uuids, self.allocations_of)
        return PlacementRecords(allocations, {each.uuid: each.root_uuid for each in providers})

    def inventories_of(self, uuids: Sequence[str]) -> Mapping[str, Mapping[str, Inventory]]:
        """Return what providers have, with one request for each, some at a time."""
        return _of_each(uuids, self.inventories)

    def inventories(self, provider_uuid: str) -> Mapping[str, Inventory]:
        """Return what a provider has, by resource class."""
        return self.session.read(
            f"/resource_providers/{provider_uuid}/inventories",
            lambda found: {
                name: Inventory(**{field: each[field] for field in Inventory.__slots__})
                for name, each in found["inventories"].items()
            },
        )

    def reported_traits(self, prefix: str) -> frozenset[str]:
        """Return the traits that begin so and that some provider has."""
        query = [("associated", "true"), ("name", f"startswith:{prefix}")]
        return self.session.read("/traits", lambda found: frozenset(found["traits"]), query)

    def allocations_for(self, consumer_uuid: str) -> ConsumerAllocations:
        """Return what an instance or a migration has; nothing if it is not known."""
        return self.session.read(
            f"/allocations/{consumer_uuid}",
            lambda found: ConsumerAllocations(
                resources={
                    provider: dict(each["resources"])
                    for provider, each in found["allocations"].items()
                },
                generation=found.get("consumer_generation"),
                project_id=found.get("project_id"),
                user_id=found.get("user_id"),
            ),
        )

    def allocation_candidates(
        self, groups: RequestGroups, in_tree: str | None = None, limit: int | None = None
    ) -> Candidates:
        """Return where a request fits, in the tree of a provider or anywhere."""
        query = groups.query(in_tree, limit)
        return self.session.read("/allocation_candidates", Candidates.from_json, query)

    def post_allocations(self, document: Mapping[str, Any]) -> None:
        """Replace what several consumers have, all or none; raises PlacementConflict, too."""
        self.session.request("POST", "/allocations", document)

    def delete_allocations(self, consumer_uuid: str) -> bool:
        """Take everything from a consumer; return whether it had anything."""
        try:
            self.session.request("DELETE", f"/allocations/{consumer_uuid}")
        except PlacementRefused as error:
            if error.status == 404:
                return False
            raise
        return True

    def close(self) -> None:
        self.session.close()


def _of_each(
    uuids: Sequence[str], ask: Callable[[str], Mapping[str, T]]
) -> dict[str, Mapping[str, T]]:
    """Return the answers about providers, some asked at a time; nothing of one that is gone."""

    def answer(uuid: str) -> Mapping[str, T]:
        try:
            return ask(uuid)
        except PlacementRefused as error:
            if error.status == 404:
                return {}
            raise

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return dict(zip(uuids, pool.map(answer, uuids), strict=True))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Find out in Placement what nova-scheduler chose: it writes the allocation before it answers."""

from collections.abc import Collection

from inventory.nova.placement import PlacementClient, Provider


class Outcomes:
    """Looks for the allocations of instances; raises what PlacementClient does."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client
        self._providers: dict[str, Provider] = {}

    def nodes(self, instance_uuid: str) -> Collection[str]:
        """Return the names of the compute nodes where an instance has an allocation."""
        uuids = self._client.allocations_for(instance_uuid).resources.keys()
        if not uuids <= self._providers.keys():
            self._providers = {each.uuid: each for each in self._client.providers()}
        # An allocation may be at a child, such as a physical GPU; shared storage is its own root.
        roots = {self._providers[each].root_uuid for each in uuids if each in self._providers}
        return {self._providers[each].name for each in roots if each in self._providers}

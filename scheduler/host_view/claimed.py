# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The instances for which schedulers have claimed room, by the id of the node where it is."""

from collections.abc import Collection, Mapping

from scheduler.objects.instance import Instance


class ClaimedInstances:
    """Those of a node are replaced as a whole whenever its row is read."""

    def __init__(self) -> None:
        self._by_node: dict[int, dict[str, Instance]] = {}

    def on(self, node_id: int) -> Mapping[str, Instance]:
        """Return {uuid: instance} of a node."""
        return self._by_node.get(node_id, {})

    def put(self, node_id: int, instance: Instance) -> None:
        """Add one instance to those of a node."""
        self._by_node.setdefault(node_id, {})[instance.uuid] = instance

    def drop(self, node_id: int, uuid: str) -> None:
        """Forget one instance of a node."""
        self.replace(node_id, {each: i for each, i in self.on(node_id).items() if each != uuid})

    def replace(self, node_id: int, instances: Mapping[str, Instance]) -> list[str]:
        """Make these the only instances of a node; return the uuids that differ by that."""
        before = self._by_node.pop(node_id, {})
        if instances:
            self._by_node[node_id] = dict(instances)
        both = dict.fromkeys((*before, *instances))
        return [uuid for uuid in both if before.get(uuid) != instances.get(uuid)]

    def keep(self, node_ids: Collection[int]) -> None:
        """Forget the instances of all other nodes."""
        for node_id in self._by_node.keys() - node_ids:
            del self._by_node[node_id]

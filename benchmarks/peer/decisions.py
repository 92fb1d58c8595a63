# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's own loop at the work of `benchmarks.decisions`: a program of Nova's own environment.

Run as `python -m benchmarks.peer.decisions`. Each line of its input is a JSON array, and answered
with a line: ["fleet", hosts, sets of aggregates, members, supported]; ["settings", {option of
filter_scheduler: value}]; ["decide", wish, instances, keep], answered with the seconds that
filtering, weighing and consuming took, and the hosts that were chosen. What a decision has taken of
the hosts stays taken if it is told to keep it. There is no database, and no Placement, which cost
Nova's scheduler more time still; where a zone is asked for, the hosts of others are left out before
the clock starts, as Placement leaves them out. Logging is off, but for warnings.
"""

# As every program of Nova's begins, before anything else is imported.
from nova import monkey_patch

monkey_patch.patch(backend="threading")

import copy  # noqa: E402
import gc  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Mapping, Sequence  # noqa: E402
from typing import Any  # noqa: E402
from uuid import UUID  # noqa: E402

import nova.conf  # noqa: E402
from nova import objects  # noqa: E402
from nova.scheduler import host_manager, manager  # noqa: E402
from oslo_utils import timeutils  # noqa: E402

Words = Mapping[str, Any]
_GROUP = "filter_scheduler"


class Hosts(host_manager.HostManager):
    """Knows only what it is told."""

    def refresh_cells_caches(self) -> None:
        """Do not ask the database."""

    def _init_aggregates(self) -> None:
        pass

    def _init_instance_info(self, computes_by_cell: Any = None) -> None:
        pass


class Loop(manager.SchedulerManager):
    """The part of Nova's scheduler that decides, and nothing else of it."""

    def __init__(self) -> None:
        self.host_manager = Hosts()

    def decide(self, hosts: list[Any], spec: Any, instances: int) -> tuple[float, list[str]]:
        """Return the seconds it took, and the hosts."""
        uuids = [str(UUID(int=number + 1)) for number in range(instances)]
        chosen = []
        began = time.process_time()
        for index, uuid in enumerate(uuids):
            spec.instance_uuid = uuid
            # What is left is what the next instance is asked about, the best first.
            hosts = self._get_sorted_hosts(spec, hosts, index)
            self._consume_selected_host(hosts[0], spec, instance_uuid=uuid)
            chosen.append(hosts[0].host)
        return time.process_time() - began, chosen


class Cloud:
    """A fleet that decisions are made on; each public method is an order."""

    def __init__(self) -> None:
        self._hosts: list[Any] = []
        self._loop = Loop()
        self._settings: list[str] = []

    def fleet(
        self, hosts: Sequence[Words], sets: Sequence[Any], members: Words, supported: Any
    ) -> int:
        """Begin with these hosts."""
        zones = {number: _an_aggregate(number, words) for each in sets for number, words in each}
        self._hosts = [a_host(each, supported) for each in hosts]
        for number, host in enumerate(self._hosts):
            host.aggregates = [zones[each] for each, _ in sets[number % len(sets)]]
            uuid = members.get(host.host)
            host.instances = {uuid: objects.Instance(uuid=uuid)} if uuid else {}
        # The collector need not look at thousands of hosts again and again.
        gc.collect()
        gc.freeze()
        return len(self._hosts)

    def settings(self, values: Words) -> int:
        """Decide with these options, and others as they are by default."""
        for name in self._settings:
            nova.conf.CONF.clear_override(name, _GROUP)
        self._settings = [*values]
        for name, value in values.items():
            nova.conf.CONF.set_override(name, value, _GROUP)
        self._loop = Loop()
        return len(values)

    def decide(self, wish: Words, instances: int, keep: bool) -> tuple[float, list[str]]:
        """Decide as Nova does."""
        hosts = self._hosts
        if wish["zone"]:
            hosts = [each for each in hosts if each.aggregates[0].availability_zone == wish["zone"]]
        spec = a_request(wish["flavor"], wish["image"], wish["group"])
        return self._loop.decide(hosts if keep else [*map(_a_copy, hosts)], spec, instances)


def _a_copy(host: Any) -> Any:
    """Return a host to consume from; all that Nova writes to is its own."""
    found = copy.copy(host)
    found.instances = {**host.instances}
    return found


def a_host(words: Words, supported: list[list[str]]) -> host_manager.HostState:
    """Return a host as Nova knows it."""
    found = host_manager.HostState(words["host"], words["host"], "cell")
    vars(found).update(words, supported_instances=supported, stats={}, cpu_info="{}")
    found.pci_stats = None
    found.hypervisor_type, found.hypervisor_hostname = "QEMU", words["host"]
    seen = timeutils.utcnow()
    found.service = host_manager.ReadOnlyDict(
        {"host": words["host"], "disabled": False, "forced_down": False, "last_seen_up": seen}
    )
    return found


def _an_aggregate(number: int, metadata: Words) -> Any:
    return objects.Aggregate(id=number, name=f"a-{number}", metadata=metadata)


def a_request(flavor: Words, image: Words, group: Words | None = None) -> Any:
    """Return the request as Nova knows it."""
    wanted = objects.Flavor(id=1, name="m1.small", flavorid="1", extra_specs={}, **flavor)
    properties = objects.ImageMetaProps(**image)
    return objects.RequestSpec(
        flavor=wanted,
        image=objects.ImageMeta(properties=properties),
        project_id="p",
        instance_uuid="00000000-0000-0000-0000-000000000001",
        num_instances=1,
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
        requested_destination=None,
        retry=None,
        instance_group=group and _a_group(group),
        scheduler_hints={},
        numa_topology=None,
        pci_requests=None,
        availability_zone=None,
        is_bfv=False,
    )


def _a_group(words: Words) -> Any:
    return objects.InstanceGroup(policies=[words["policy"]], rules={}, **words)


def serve(kind: Callable[[], Any]) -> None:
    """Make what a program works with, and let its methods answer the lines of the input."""
    objects.register_all()
    nova.conf.CONF([], project="nova", default_config_files=[])
    nova.conf.CONF.set_override("service_down_time", 86_400)
    served = kind()
    for line in sys.stdin:
        order, *words = json.loads(line)
        print(json.dumps(getattr(served, order)(*words)), flush=True)


if __name__ == "__main__":
    serve(Cloud)

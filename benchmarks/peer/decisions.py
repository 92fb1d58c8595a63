# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's own loop at the work of `benchmarks.decisions`: a program of Nova's own environment.

Run as `python -m benchmarks.peer.decisions`. Each line of its input is a JSON array: ["fleet",
hosts, flavor, image, supported] or ["decide", instances], which is answered with the seconds that
filtering, weighing and consuming took for them, and the hosts that were chosen. Filters and
weighers are those that Nova enables by default. There is no database, and no Placement, which costs
Nova's scheduler more time still.
"""

# As every program of Nova's begins, before anything else is imported.
from nova import monkey_patch

monkey_patch.patch(backend="threading")

import copy  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Mapping  # noqa: E402
from typing import Any  # noqa: E402

import nova.conf  # noqa: E402
from nova import objects  # noqa: E402
from nova.scheduler import host_manager, manager  # noqa: E402
from oslo_utils import timeutils  # noqa: E402

Words = Mapping[str, Any]


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
        chosen = []
        began = time.process_time()
        for index in range(instances):
            best, *_ = self._get_sorted_hosts(spec, hosts, index)
            best.consume_from_request(spec)
            chosen.append(best.host)
        return time.process_time() - began, chosen


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


def a_request(flavor: Words, image: Words) -> Any:
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
        instance_group=None,
        scheduler_hints={},
        numa_topology=None,
        pci_requests=None,
        availability_zone=None,
        is_bfv=False,
    )


def main() -> None:
    objects.register_all()
    nova.conf.CONF([], project="nova", default_config_files=[])
    nova.conf.CONF.set_override("service_down_time", 86_400)
    loop, hosts, spec = Loop(), [], None
    for line in sys.stdin:
        order, *words = json.loads(line)
        if order == "fleet":
            fleet, flavor, image, supported = words
            hosts = [a_host(each, supported) for each in fleet]
            spec = a_request(flavor, image)
            answer: Any = len(hosts)
        else:
            # What a decision takes of hosts is not to be there for the next one.
            answer = loop.decide([copy.copy(each) for each in hosts], spec, *words)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

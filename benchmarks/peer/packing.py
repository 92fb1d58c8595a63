# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's own loop at the work of `benchmarks.packing`: a program of Nova's own environment.

Run as `python -m benchmarks.peer.packing`. Each line of its input is a JSON array, answered with a
line: ["settings", [[group, option, value], ...]]; ["fleet", hosts]; ["place", vCPUs, GB of RAM, GB
of disk, numbers of the hosts that have room], answered with the number of the host; ["leave",
vCPUs, GB of RAM, GB of disk, number of the host]. In a real cloud Placement leaves out the hosts
without room. Filters and weighers are those that Nova enables by default.
"""

# As every program of Nova's begins, before anything else is imported.
from nova import monkey_patch

monkey_patch.patch(backend="threading")

from collections.abc import Sequence  # noqa: E402
from functools import cache  # noqa: E402
from typing import Any  # noqa: E402

import nova.conf  # noqa: E402

from benchmarks.peer.decisions import Loop, a_host, a_request, serve  # noqa: E402

Settings = Sequence[tuple[str, str, Any]]


class Cloud:
    """Hosts that are filled and emptied; each public method is an order."""

    def __init__(self) -> None:
        self._loop = Loop()
        self._hosts: list[Any] = []
        self._numbers: dict[str, int] = {}
        self._settings: Settings = []

    def settings(self, values: Settings) -> int:
        """Decide with these options, and others as they are by default."""
        for group, name, _ in self._settings:
            nova.conf.CONF.clear_override(name, group)
        for group, name, value in values:
            nova.conf.CONF.set_override(name, value, group)
        self._settings = values
        self._loop = Loop()
        return len(values)

    def fleet(self, hosts: Sequence[dict[str, Any]]) -> int:
        """Begin with these hosts."""
        self._hosts = [a_host(each, []) for each in hosts]
        self._numbers = {each["host"]: number for number, each in enumerate(hosts)}
        return len(hosts)

    def place(self, vcpus: int, ram_gb: int, disk_gb: int, roomy: Sequence[int]) -> int:
        """Choose one of these hosts."""
        spec = _request(vcpus, ram_gb, disk_gb)
        _, (chosen,) = self._loop.decide([self._hosts[each] for each in roomy], spec, 1)
        number = self._numbers[chosen]
        # It is built before the next one is asked for.
        self._hosts[number].num_io_ops = 0
        return number

    def leave(self, vcpus: int, ram_gb: int, disk_gb: int, number: int) -> int:
        """Give back what an instance took."""
        host = self._hosts[number]
        host.vcpus_used -= vcpus
        host.free_ram_mb += 1024 * ram_gb
        host.free_disk_mb += 1024 * disk_gb
        host.num_instances -= 1
        return number


@cache
def _request(vcpus: int, ram_gb: int, disk_gb: int) -> Any:
    flavor = {"vcpus": vcpus, "memory_mb": 1024 * ram_gb, "root_gb": disk_gb}
    return a_request({**flavor, "ephemeral_gb": 0, "swap": 0}, {})


if __name__ == "__main__":
    serve(Cloud)

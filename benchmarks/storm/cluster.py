# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A cloud on a Galera cluster: each scheduler and each operator is at a member of its own."""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.storm.cloud import Cloud, Fleet
from benchmarks.storm.faults import Fault, Faults
from tests.fixtures.daemons.galera import Galera
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment

# Of a URL: what the other members have committed is there before anything is read.
IN_ORDER = "&init_command=SET%20SESSION%20wsrep_sync_wait%3D1"

# Such as leave it a majority.
KINDS = (
    "a late member",
    "a late member",
    "a late member",
    "a late member",
    "kill a member",
    "freeze a member",
    "kill a scheduler",
    "pause a scheduler",
)


class ClusterCloud(Cloud):
    """Processes that go on while members of their database are late, frozen or killed."""

    def __init__(
        self, deployment: Deployment, broker: RabbitMQ, cluster: Galera, fleet: Fleet
    ) -> None:
        super().__init__(deployment, broker, cluster.members[0], fleet)
        self.cluster = cluster
        self.operators_urls = [each.url(self._name) for each in cluster.members]
        self.check_url = deployment.database_url + IN_ORDER

    def options_of(self, number: int) -> dict[str, Any]:
        url = self.operators_urls[number % len(self.operators_urls)]
        return {**self.options, "database": {"connection": url}}

    def heal(self) -> None:
        self.cluster.heal()
        self.broker.start()
        self.restart_exited_agent()


class MemberFaults(Faults):
    """Breaks members of the cluster, one at a time, and schedulers."""

    kinds = KINDS

    def __init__(
        self,
        cloud: ClusterCloud,
        seed: int,
        number: int,
        more: Mapping[str, Callable[[Fault], object]] | None = None,
    ) -> None:
        super().__init__(cloud, seed, number, more)
        self._cluster = cloud.cluster

    def _actions(self) -> dict[str, Callable[[Fault], object]]:
        return {
            **super()._actions(),
            "a late member": self._late_member,
            "kill a member": self._kill_member,
            "freeze a member": self._freeze_member,
        }

    def _late_member(self, fault: Fault) -> None:
        with self._cluster.late(self._cluster.members[fault.target]):
            self._stopped.wait(2 * fault.seconds)

    def _kill_member(self, fault: Fault) -> None:
        member = self._cluster.members[fault.target]
        member.kill()
        self._stopped.wait(fault.seconds)
        member.start()

    def _freeze_member(self, fault: Fault) -> None:
        """Stop it: for some seconds the others wait for it, and then go on without it."""
        member = self._cluster.members[fault.target]
        member.pause()
        self._stopped.wait(6 * fault.seconds)
        member.resume()
        self._cluster.heal()

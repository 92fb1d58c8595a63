# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The base class of monitors: plug-ins that measure something about nodes.

A monitor is a subclass of Monitor with an entry point in the namespace
berthmaster.compute_agent.monitors, and is named in [DEFAULT] compute_monitors. The word before the
dot of its name, as in cpu.virt_driver, says what it measures: of each only one can be enabled, and
its metrics begin with that word.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compute_agent.virt.driver import Driver, NodeName


@dataclass(frozen=True, slots=True)
class Metric:
    """A measured figure and its time, which is in UTC unless it has a zone.

    Where the name ends in .percent the value is a share of 1; schedulers multiply it by 100.
    source says who measured.
    """

    name: str
    value: float
    timestamp: datetime
    source: str


class Monitor(ABC):
    """Measures something about the nodes of a driver.

    It is made before the process forks, so making one connects nothing and starts no thread.
    """

    # Any: the options of oslo.config, whose types are only known when it runs.
    def __init__(self, conf: Any, driver: Driver) -> None:
        """Look at the options; what is raised stops the start of the agent."""
        self.conf = conf
        self.driver = driver

    @abstractmethod
    def metrics(self, node: NodeName) -> Iterable[Metric]:
        """Return the present metrics of a node, if any.

        Every audit asks, from one thread at a time. What is raised is logged, and the row of the
        node has none of this monitor's metrics until it succeeds.
        """

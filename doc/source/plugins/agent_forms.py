# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The examples of the plug-in author's guide that run in an agent."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from compute_agent.monitors import Metric, Monitor
from compute_agent.virt.driver import Driver, DriverUnavailable, Guest, NodeFacts, NodeName, Size


class LoadMonitor(Monitor):
    """Measures how many processes run or wait on the agent's machine."""

    def metrics(self, node):
        load, _, _ = os.getloadavg()
        return [Metric("load.one", load, datetime.now(UTC), "load.kernel")]


class ApplianceDriver(Driver):
    """Reads a machine and its guests from a JSON file."""

    def __init__(self, conf):
        super().__init__(conf)
        self._name = NodeName(conf.host, conf.host)
        self._file = Path(conf.state_path, "appliance.json")

    def hosts(self):
        return [self._name.host]

    def nodes(self):
        return [self._name]

    def facts(self, node):
        return NodeFacts(**self._told()["host"])

    def guests(self, node):
        return [Guest(**each) for each in self._told()["guests"]]

    def overhead(self, guest):
        return Size(memory_mb=64)

    def close(self):
        """Nothing waits for an answer."""

    def _told(self):
        try:
            return json.loads(self._file.read_text())
        except (OSError, ValueError) as error:
            raise DriverUnavailable(f"{self._file}: {error}") from error

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers for tests, some of them written as for Nova."""

import numpy as np

from scheduler.filters import BaseHostFilter
from scheduler.weighers import BaseHostWeigher


class Drop(BaseHostFilter):
    """Refuses the hosts of these names and remembers which hosts it was asked about."""

    def __init__(self, *names):
        super().__init__()
        self.names = names
        self.asked = []

    def host_passes(self, host_state, spec_obj):
        self.asked.append((host_state.host, spec_obj.instance_uuid))
        return host_state.host not in self.names

    def reason(self, host_state, spec_obj):
        return f"{host_state.host} was dropped"


class DropOnce(Drop):
    """The same, only for the first instance of a request."""

    run_filter_once_per_request = True


class DropOnRebuild(Drop):
    """The same, also when an instance is rebuilt."""

    RUN_ON_REBUILD = True


class Moody(BaseHostFilter):
    """A third party's filter that raises for some hosts."""

    def __init__(self, *names):
        super().__init__()
        self.names = names

    def host_passes(self, host_state, spec_obj):
        if host_state.host in self.names:
            raise KeyError(f"no {host_state.host} here")
        return True


class Favourite(BaseHostWeigher):
    """Gives each host the weight that is written down for its name, and counts its calls."""

    def __init__(self, multiplier=1.0, **weights):
        super().__init__()
        self.multiplier = multiplier
        self.weights = weights
        self.asked = []

    def _weigh_object(self, host_state, weight_properties):
        self.asked.append(host_state.host)
        return self.weights[host_state.host]


class Tens(BaseHostWeigher):
    """A third party's weigher with a multiplier of its own for each host: its number of CPUs."""

    def weigh(self, hosts, spec):
        return np.arange(hosts.size, dtype=float)

    def weight_multiplier(self, host_state):
        return float(host_state.vcpus_total)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The examples of the plug-in author's guide."""

from dataclasses import replace

import numpy as np

from scheduler.decision import pipeline
from scheduler.decision.types import ResourceShortfall
from scheduler.drivers import BaseDriver
from scheduler.filters import BaseHostFilter
from scheduler.weighers import BaseHostWeigher


class RoomyHost(BaseHostFilter):
    """Keep the hosts with at least twice the memory of the instance."""

    def host_passes(self, host_state, spec_obj):
        return host_state.total_usable_ram_mb >= 2 * spec_obj.memory_mb


class RoomyHosts(BaseHostFilter):
    """Keep the hosts with at least twice the memory of the instance."""

    def mask(self, hosts, spec):
        return hosts.total_usable_ram_mb >= 2 * spec.memory_mb

    def reason(self, host_state, spec_obj):
        return f"needs {2 * spec_obj.memory_mb} MB in total, has {host_state.total_usable_ram_mb}"


class TenthFree(BaseHostFilter):
    """Keep the hosts on which a tenth of the memory stays free."""

    def host_passes(self, host_state, spec_obj):
        return self.missing(host_state, spec_obj) <= 0

    def lack(self, host_state, spec_obj):
        return ResourceShortfall("memory_mb", self.missing(host_state, spec_obj))

    def missing(self, host_state, spec_obj):
        kept = -(-host_state.total_usable_ram_mb // 10)
        return kept + spec_obj.memory_mb - host_state.free_ram_mb


class GpuAggregate(BaseHostFilter):
    """Keep the hosts of an aggregate with gpu=yes, for flavors that ask for one."""

    run_filter_once_per_request = True
    reads = ("aggregates",)

    def applies(self, spec):
        return spec.flavor.extra_specs.get("my:gpu") == "yes"

    def host_passes(self, host_state, spec_obj):
        if not self.applies(spec_obj):
            return True
        return any(each.metadata.get("gpu") == "yes" for each in host_state.aggregates or ())


class NoDefaultZone(BaseHostFilter):
    """Keep the hosts that are in a zone of their own."""

    default_zone = "nova"
    options = (("default_zone", "DEFAULT", "default_availability_zone"),)

    def host_passes(self, host_state, spec_obj):
        zones = {
            each.metadata.get("availability_zone", self.default_zone)
            for each in host_state.aggregates or ()
        }
        return bool(zones - {self.default_zone})


class FreeShare(BaseHostWeigher):
    """Prefer the hosts with the larger part of their memory free."""

    minval = 0.0
    maxval = 1.0

    def weigh(self, hosts, spec):
        return hosts.free_ram_mb / np.maximum(hosts.total_usable_ram_mb, 1)


class InOrder(BaseDriver):
    """Decides for the host that has registered first, of those that pass all filters."""

    def decide(self, hosts, request):
        plan = replace(self.plan, weighers=(), host_subset_size=1, shuffle_best=False)
        return pipeline.decide(hosts, replace(request, choices=1), plan)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The hosts as they are now, for questions that take decisions: read at the first such question."""

from collections.abc import Iterator
from contextlib import contextmanager

from oslo_config import cfg

from inventory.engine import Database
from scheduler import plugins
from scheduler.host_cache.cache import HostCache
from scheduler.host_cache.requested_mix import MixSettings, RequestedMix
from scheduler.hosts.table import HostTable
from scheduler.operators.capacity import Simulator

# Seconds: a page may be so old.
_MAX_AGE = 5.0


class LiveHosts:
    """A host cache of its own, and the driver of the configuration; raises PluginError."""

    def __init__(self, conf: cfg.ConfigOpts, database: Database) -> None:
        self._cache = HostCache(
            database,
            max_age=_MAX_AGE,
            reload_interval=conf.scheduler.view_reload_interval,
            cell_uuid=conf.scheduler.cell_uuid,
        )
        self._cache.set_numa_packing(conf.compute.packing_host_numa_cells_allocation_strategy)
        settings = MixSettings(conf.flavor_mix.flavors, conf.flavor_mix.half_life)
        self._mix = RequestedMix(database, settings, self._cache.set_flavor_mix)
        self.simulator = Simulator.of(plugins.load_driver(conf))

    @contextmanager
    def hosts(self) -> Iterator[HostTable]:
        """Yield a working copy of the hosts with what is usually asked for.

        Raises DatabaseUnavailable.
        """
        self._mix.refresh()
        with self._cache.current() as found:
            copy = found.working_copy()
        yield copy

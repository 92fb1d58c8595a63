# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Create what answers requests, by the options: for a scheduler, and for commands that decide.

Nothing here serves or calls over RPC, so that commands need not wait for oslo.messaging.
"""

from collections.abc import Sequence

from oslo_config import cfg

from conf.claims import OFF, REQUIRED
from conf.scheduler import view_max_age
from conf.service import liveness_limit
from inventory.claims.types import Changes
from inventory.engine import Database
from inventory.nova.placement import PlacementClient
from inventory.nova.placement_session import is_configured
from scheduler import plugins, trust
from scheduler.claims.allocator import Allocator
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer, Publish
from scheduler.claims.protection import ProtectionSettings
from scheduler.claims.resource_request import TraitOptions
from scheduler.drivers import BaseDriver
from scheduler.history import config_snapshot
from scheduler.host_cache.cache import HEARTBEAT_INTERVAL, HostCache
from scheduler.host_cache.requested_mix import MixSettings, RequestedMix
from scheduler.request_trace import RequestObserver
from scheduler.select_destinations.destinations import Destinations


def build_destinations(
    conf: cfg.ConfigOpts,
    database: Database,
    publish: Publish = lambda _: None,
    observers: Sequence[RequestObserver] = (),
) -> Destinations:
    """Return what answers requests; publish is given what claims have changed of nodes."""
    host_cache = HostCache(
        database,
        reload_interval=conf.scheduler.view_reload_interval,
        timeout=conf.scheduler.request_timeout,
        cell_uuid=conf.scheduler.cell_uuid,
    )
    configure_cache(host_cache, conf)
    return Destinations(
        database,
        host_cache,
        build_driver(conf),
        max_attempts=conf.scheduler.max_attempts,
        default_zone=conf.default_availability_zone,
        attestation=trust.load(conf),
        claimer=build_claimer(conf, database, host_cache, publish),
        observers=observers,
    )


def configure_cache(host_cache: HostCache, conf: cfg.ConfigOpts) -> None:
    """Set the options of the host cache that a reload may change."""
    host_cache.max_age = view_max_age(conf)
    host_cache.heartbeat_interval = min(HEARTBEAT_INTERVAL, liveness_limit(conf) / 3)
    host_cache.set_numa_packing(conf.compute.packing_host_numa_cells_allocation_strategy)


def requested_mix(conf: cfg.ConfigOpts, database: Database, host_cache: HostCache) -> RequestedMix:
    """Return what finds the flavor mix of a host cache."""
    return RequestedMix(database, mix_settings(conf), host_cache.set_flavor_mix)


def mix_settings(conf: cfg.ConfigOpts) -> MixSettings:
    """Return the options of the flavor mix."""
    return MixSettings(conf.flavor_mix.flavors, conf.flavor_mix.half_life)


def build_driver(conf: cfg.ConfigOpts) -> BaseDriver:
    """Return the configured driver, with the settings that are saved with each decision."""
    driver = plugins.load_driver(conf)
    driver.settings = config_snapshot.given(conf, driver)
    return driver


def build_claimer(
    conf: cfg.ConfigOpts, database: Database, host_cache: HostCache, publish: Publish
) -> Claimer | None:
    """Return what claims, None where [claims] enabled is off."""
    if not conf.claims.enabled:
        return None

    def apply(changes: Changes) -> None:
        host_cache.apply_changes(changes)
        publish(changes)

    # Conductors allocate on the alternates that they use.
    alternates = conf.claims.alternates and not allocates(conf)
    protection = ProtectionSettings(conf.failover.protect, frozenset(conf.failover.projects))
    settings = ClaimSettings(
        conf.claims.lease, conf.claims.attempts, alternates, protection=protection
    )
    return Claimer(database, settings, apply)


def allocates(conf: cfg.ConfigOpts) -> bool:
    """Return whether claims become allocations in Placement."""
    return bool(conf.claims.enabled and conf.claims.allocations != OFF and is_configured(conf))


def load_allocator(conf: cfg.ConfigOpts) -> Allocator | None:
    """Return what allocates in Placement, None without claims or section [placement].

    Connects to nothing yet; raises PlacementMisconfigured.
    """
    if not allocates(conf):
        return None
    options = conf.scheduler
    traits = TraitOptions(
        image_type_support=options.query_placement_for_image_type_support,
        image_metadata=options.image_metadata_prefilter,
    )
    is_required = conf.claims.allocations == REQUIRED
    return Allocator(PlacementClient(conf), is_required, options.max_placement_results, traits)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler service, where all its parts are created and connected."""

import gc
from collections.abc import Callable, Collection
from threading import Event, Thread

import oslo_messaging
from oslo_config import cfg
from oslo_log import log
from oslo_service import service as oslo_service

from conf.daemon import tracing
from conf.daemon.periodic_thread import PeriodicThread
from conf.daemon.process import stop_each
from conf.daemon.state_logger import StateLogger
from conf.daemon.systemd import Notifier
from conf.service import liveness_limit
from inventory import audit_log, heartbeat, migrations, services
from inventory.claims import group_locks, standby_rows
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database, open_database, start_patience
from inventory.errors import counted
from inventory.heartbeat import Heartbeat
from inventory.nova.placement_errors import PlacementMisconfigured
from inventory.objects.standby import NONE
from scheduler import plugins, trust
from scheduler.api.config_endpoint import ConfigEndpoint
from scheduler.api.explain_endpoint import ExplainEndpoint
from scheduler.api.notifications import Notifications
from scheduler.api.scheduler_endpoint import TOPIC, BaseEndpoint, SchedulerEndpoint
from scheduler.api.tracking_endpoint import PushEndpoint, TrackingEndpoint
from scheduler.claims.claim_adoption import ClaimAdoption
from scheduler.claims.claim_reconciler import ClaimReconciler
from scheduler.claims.release_queue import ReleaseLease, ReleaseQueue
from scheduler.claims.standby_keeper import StandbyKeeper
from scheduler.claims.standby_keeper_thread import StandbyKeeperThread
from scheduler.client.nova_conductor import NovaConductor
from scheduler.history.recorder import DecisionRecorder, Retention
from scheduler.hosts.snapshots import SnapshotLog
from scheduler.messaging.change_publisher import COLLECTING, ChangePublisher
from scheduler.messaging.intake import Intake, open_intake
from scheduler.messaging.server import RpcServer
from scheduler.messaging.transport import disconnect, rpc_transport
from scheduler.monitoring import Monitoring
from scheduler.select_destinations.destination_builder import (
    allocates,
    build_claimer,
    build_destinations,
    build_driver,
    configure_cache,
    load_allocator,
    mix_settings,
    requested_mix,
)
from scheduler.select_destinations.destinations import Destinations
from scheduler.wire import push_messages

LOG = log.getLogger(__name__)
Publish = Callable[[Collection[int]], None]
# Seconds: hosts that were read longer ago are read although there is no request.
WARM = 5.0
# Seconds that a stop waits for such a reading under way.
STOP_TIMEOUT = 1.0


def prune_unneeded(conf: cfg.ConfigOpts, database: Database) -> bool:
    """Delete some rows beside decisions that are not needed any more; return whether more may be.

    Groups come first: with the grants of an older release the audit log cannot be pruned.
    """
    group_locks.prune(database)
    return database.write(lambda connection: audit_log.prune(connection, conf.audit.keep))


def _freeze() -> None:
    """Let no collection of garbage look at what is there now, which stays."""
    gc.collect()
    gc.freeze()


def _retention(conf: cfg.ConfigOpts) -> Retention:
    return Retention(conf.decisions.max_age, conf.decisions.max_number)


def _check_claims(conf: cfg.ConfigOpts, database: Database) -> None:
    """Warn of settings and agents that weaken claims; prune the rows of unused server groups."""
    if allocates(conf):
        LOG.info("Claims are allocated in Placement, as section [placement] says")
    elif not conf.claims.alternates:
        LOG.warning(
            "[claims] alternates is off: no resources are claimed on alternates, so that"
            " instances whose builds are repeated may take more than a host has"
        )
    binary, first, what = services.COMPUTE[0], heartbeat.COUNTING_CLAIMS, "claims"
    if conf.failover.protect != NONE or database.read(standby_rows.lacking)["protected"]:
        first, what = heartbeat.COUNTING_STANDBYS, "what is held for standbys"
    hosts = database.read(lambda connection: services.older_than(connection, binary, first))
    if hosts:
        LOG.warning(
            "The agents of %s (%s) do not count %s, so that resources may be claimed"
            " twice: restart them with this release",
            counted(len(hosts), "host"),
            ", ".join(hosts[:5]),
            what,
        )
    try:
        group_locks.prune(database)
    except DatabaseUnavailable as error:
        LOG.info("Cannot delete unused rows of server groups before the next start: %s", error)


class SchedulerService(oslo_service.ServiceBase):  # type: ignore[misc]  # oslo has no types
    """One scheduler process. Nothing is connected before start(), which runs after any fork."""

    destinations: Destinations

    def __init__(self, conf: cfg.ConfigOpts, notifier: Notifier) -> None:
        self._conf = conf
        self._notifier = notifier
        self._stopped = Event()
        self._started = False

    def start(self) -> None:
        """Connect, serve and notify systemd."""
        conf = self._conf
        tracing.prepare(conf)
        self._database = open_database(conf)
        self._transport = rpc_transport(conf)
        with self._database.waiting(start_patience(conf)):
            migrations.check(self._database)
            self._create_parts()
            self._start_parts()
        self._adoption.start()
        self._standbys.start()
        self._warmer.start()
        self._started = True
        self._notifier.ready("serving select_destinations")
        self._notifier.watch(self._server.alive)
        LOG.info("Scheduler %s serves select_destinations", conf.host)

    def _start_parts(self) -> None:
        """Start all that a request needs, then serve: the first caller waits for nothing."""
        conf, cache = self._conf, self.destinations.host_cache
        plugins.report_bounds(conf, self.destinations.driver.plan.filters)
        if self.destinations.claimer:
            _check_claims(conf, self._database)
        dropped = {
            "decisions": lambda: self._recorder.dropped,
            "notifications": lambda: self._notifications.dropped,
        }
        self._monitoring.start(self._database, cache, self._server, dropped)
        self._heartbeat.start()
        self._recorder.start()
        self._requested_mix.start()
        self._publisher.start()
        self._notifications.start()
        cache.refresh_if_older(fresh=True, patient=True)
        _freeze()
        # The servers last: once requests are received nothing may fail any more.
        self._push_server.start()
        # It reads what was pushed before that to nobody.
        cache.refresh_if_older(fresh=True, patient=True)
        self._server.start()

    def _create_parts(self) -> None:
        """Create all that is started and stopped."""
        conf, database = self._conf, self._database
        self._heartbeat = Heartbeat(database, [conf.host], services.SCHEDULER, conf.report_interval)
        self._heartbeat.limit = liveness_limit(conf)
        self._heartbeat.daemon_host = conf.host
        self._notifications = Notifications(conf)
        self._publisher = ChangePublisher(lambda: self._transport, conf.host, COLLECTING)
        self._monitoring = Monitoring(conf)
        self._recorder = DecisionRecorder(
            database, conf.host, _retention(conf), lambda: prune_unneeded(conf, database)
        )
        self._conductor = NovaConductor(rpc_transport(conf))

        def asks() -> bool:
            return bool(conf.claims.enabled and conf.claims.ask_conductor)

        self._reconciler = ClaimReconciler(
            lambda: self.destinations.claimer, self._conductor.instance, asks
        )
        self._adoption = ClaimAdoption(database, conf.host, self._reconciler, asks)
        observers = (*self._monitoring.observers, self._recorder, self._reconciler)
        self.destinations = build_destinations(
            conf, database, self._publisher.publish_claims, observers
        )
        self.destinations.host_cache.catch_up = self._heartbeat.catch_up
        self._requested_mix = requested_mix(conf, database, self.destinations.host_cache)
        self.destinations.change(snapshot_log=self._snapshot_log(), allocator=load_allocator(conf))
        lease = ReleaseLease(database, conf.host)
        self._releases = ReleaseQueue(lambda: self.destinations.claimer, lease.hold)
        self._standbys = self._standby_keeper_thread()
        self._server, self._push_server = self._create_servers()
        self._warmth = StateLogger(LOG, "Reading hosts between requests")
        self._warmer = PeriodicThread("warmer", self._keep_warm, WARM)

    def _keep_warm(self) -> None:
        """Read what has changed, so that who comes after a pause, or a lost broker, need not wait.

        A complete reading, which takes seconds in a large cloud, is due then sooner or later.
        """
        cache = self.destinations.host_cache
        text = "Cannot read hosts between requests, trying again: %s"
        age = max(WARM, cache.max_age)
        self._warmth.attempt(lambda: cache.refresh_if_older(age), text, reason=text)

    def _standby_keeper_thread(self) -> StandbyKeeperThread:
        conf, database = self._conf, self._database
        keeper = StandbyKeeper(
            database,
            self.destinations.host_cache,
            lambda: self.destinations.driver.plan,
            lambda: self.destinations.claimer,
        )

        def interval() -> float:
            return float(conf.failover.keeper_interval) if conf.failover.keeper else 0.0

        return StandbyKeeperThread(database, conf.host, keeper, interval)

    def _create_servers(self) -> tuple[Intake, Intake]:
        """Return the server of requests, and that of pushes by agents and schedulers."""
        conf, host_cache = self._conf, self.destinations.host_cache
        select = SchedulerEndpoint(self.destinations, self._notifications)
        endpoints = [
            select,
            TrackingEndpoint(
                host_cache,
                self._releases.add,
                lambda: bool(conf.filter_scheduler.track_instance_changes),
            ),
            ExplainEndpoint(self.destinations),
            ConfigEndpoint(conf, self.destinations),
            BaseEndpoint(),
        ]
        in_flight = conf.scheduler.max_requests_in_flight
        target = oslo_messaging.Target(topic=TOPIC, server=conf.host)
        requests = open_intake(self._transport, target, endpoints, in_flight, select.take)
        requests.longest_wait = conf.scheduler.request_timeout
        # One at a time and in their order: applying pushes is work for the CPU.
        push_endpoints = [PushEndpoint(host_cache)]
        pushes = RpcServer(self._transport, push_messages.TOPIC, conf.host, push_endpoints, 1)
        return requests, pushes

    def _snapshot_log(self) -> SnapshotLog | None:
        return self._recorder.snapshot_log if self._conf.decisions.keep else None

    def stop(self) -> None:
        """Answer the requests in flight, then stop. Safe for a service that was never started."""
        if not self._started or self._stopped.is_set():
            self._stopped.set()
            return
        LOG.info("Stopping: no new requests are received, requests in flight are answered")
        self._notifier.stopping()
        # Side by side: an idle server may need seconds to notice.
        pushes = Thread(target=self._push_server.drain, name="pushes")
        pushes.start()
        self._server.drain()
        pushes.join()
        stop_each(
            lambda: self._warmer.stop(STOP_TIMEOUT),
            self._releases.stop,
            self._standbys.stop,
            self._adoption.stop,
            self._reconciler.stop,
            self._conductor.close,
            self._close_allocator,
            self._publisher.stop,
            self._notifications.stop,
            self._recorder.stop,
            self._requested_mix.stop,
            self._heartbeat.stop,
            self._monitoring.stop,
            lambda: disconnect(self._transport),
            self._database.close,
        )
        self._stopped.set()
        LOG.info("Stopped")

    def _close_allocator(self) -> None:
        if self.destinations.allocator is not None:
            self.destinations.allocator.close()

    def wait(self) -> None:
        """Return when the service has stopped."""
        self._stopped.wait()

    def reset(self) -> None:
        """Apply the configuration that was read again after SIGHUP.

        Filters, weighers and their settings are created anew; a mistake in them keeps the old ones.
        """
        with self._notifier.reloading("serving select_destinations"):
            self._apply()

    def _apply(self) -> None:
        """Create anew what is made from options, or keep the old parts if one is wrong."""
        mistake = ""
        try:
            self._build_anew()
        except (plugins.PluginError, PlacementMisconfigured, cfg.Error) as error:
            mistake = str(error)
        if mistake:
            LOG.error("Reload rejected, keeping the current configuration: %s", mistake)
        else:
            LOG.info("Configuration read again")
            plugins.report_bounds(self._conf, self.destinations.driver.plan.filters)
            configure_cache(self.destinations.host_cache, self._conf)
            self._monitoring.reset()
            self._recorder.retention = _retention(self._conf)
            self._requested_mix.configure(mix_settings(self._conf))

    def _build_anew(self) -> None:
        """Replace what is built from options: all of it, or nothing if an option is wrong."""
        publish = self._publisher.publish_claims
        cache = self.destinations.host_cache
        self.destinations.change(
            driver=build_driver(self._conf),
            attestation=trust.load(self._conf),
            allocator=load_allocator(self._conf),
            claimer=build_claimer(self._conf, self._database, cache, publish),
            snapshot_log=self._snapshot_log(),
        )

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler service: the one place where its parts are joined."""

from collections.abc import Callable, Collection, Sequence
from threading import Event, Thread

from oslo_config import cfg
from oslo_log import log
from oslo_service import service as oslo_service

from conf import tracing
from conf.scheduler import view_max_age
from conf.stopping import stop_each
from conf.systemd import Notifier
from inventory import claimed_groups, heartbeat, migrations, services
from inventory.engine import Database, DatabaseUnavailable, open_database
from inventory.heartbeat import Heartbeat
from scheduler import attestation, bounding_filters, plugins
from scheduler.claim_reconciler import ClaimReconciler
from scheduler.claiming import Claimer, Terms
from scheduler.claiming.release_queue import ReleaseQueue
from scheduler.course import Witness
from scheduler.decision.film import Film
from scheduler.destinations import Destinations
from scheduler.drivers import BaseDriver
from scheduler.host_view import HostView
from scheduler.host_view.changes import of_nodes
from scheduler.keeping import settings
from scheduler.keeping.keeper import Keeper, Limits
from scheduler.rpc import changes
from scheduler.rpc.announcements import Announcements
from scheduler.rpc.changes import Written
from scheduler.rpc.changes_endpoint import ChangesEndpoint
from scheduler.rpc.endpoint import TOPIC, BaseEndpoint, SchedulerEndpoint, TrackingEndpoint
from scheduler.rpc.explanations import ExplanationsEndpoint
from scheduler.rpc.notifications import Notifications
from scheduler.rpc.nova_conductor import NovaConductor
from scheduler.rpc.server import RpcServer
from scheduler.rpc.transport import disconnect, rpc_transport
from scheduler.told import Told
from scheduler.watching import Watching

LOG = log.getLogger(__name__)


Tell = Callable[[Collection[int]], None]


def build_destinations(
    conf: cfg.ConfigOpts,
    database: Database,
    tell: Tell = lambda _: None,
    witnesses: Sequence[Witness] = (),
) -> Destinations:
    """Return what answers requests, made from the configuration.

    tell is given the ids of nodes on which something was claimed; witnesses hear of each request.
    """
    view = HostView(
        database,
        reload_interval=conf.scheduler.view_reload_interval,
        timeout=conf.scheduler.request_timeout,
        cell_uuid=conf.scheduler.cell_uuid,
    )
    _settle(view, conf)
    return Destinations(
        database,
        view,
        _driver(conf),
        max_attempts=conf.scheduler.max_attempts,
        default_zone=conf.default_availability_zone,
        attestation=attestation.load(conf),
        claimer=_claimer(conf, database, tell),
        witnesses=witnesses,
    )


def _driver(conf: cfg.ConfigOpts) -> BaseDriver:
    """Return what decides; it knows with which settings, to be kept with each decision."""
    driver = plugins.load_driver(conf)
    driver.settings = settings.given(conf, driver)
    return driver


def _claimer(conf: cfg.ConfigOpts, database: Database, tell: Tell) -> Claimer | None:
    """Return what claims, None where nothing is to be claimed."""
    if not conf.claims.enabled:
        return None
    terms = Terms(conf.claims.lease, conf.claims.attempts, conf.claims.alternates)
    return Claimer(database, terms, tell)


def _warn_of_old_agents(database: Database) -> None:
    """Say whose audits take claims out of the figures again."""
    binary, first = services.COMPUTE[0], heartbeat.COUNTING_CLAIMS
    hosts = database.read(lambda connection: services.older_than(connection, binary, first))
    if hosts:
        LOG.warning(
            "The agents of %s hosts (%s) do not count claims, so that room may be given away twice:"
            " restart them with this release",
            len(hosts),
            ", ".join(hosts[:5]),
        )


def _warn_of_free_alternates(conf: cfg.ConfigOpts) -> None:
    """Say that callers are sent to hosts where nothing is claimed for them."""
    if not conf.claims.alternates:
        LOG.warning(
            "[claims] alternates is off: no room is claimed for alternates, so that instances whose"
            " builds are tried again may take more than a host has"
        )


def _settle(view: HostView, conf: cfg.ConfigOpts) -> None:
    """Give the view what may change in its configuration while it is used."""
    view.set_max_age(view_max_age(conf))
    view.set_numa_packing(conf.compute.packing_host_numa_cells_allocation_strategy)
    if not conf.filter_scheduler.track_instance_changes:
        view.forget_instances()


def _limits(conf: cfg.ConfigOpts) -> Limits:
    return Limits(conf.decisions.max_age, conf.decisions.max_number)


def _forget_idle_groups(database: Database) -> None:
    try:
        claimed_groups.prune(database)
    # It is for the next start then.
    except DatabaseUnavailable as error:
        LOG.info("Server groups without claims stay listed: %s", error)


class SchedulerService(oslo_service.ServiceBase):  # type: ignore[misc]  # oslo has no types
    """One scheduler process. Nothing is connected before start(), which runs after any fork."""

    destinations: Destinations

    def __init__(self, conf: cfg.ConfigOpts, notifier: Notifier) -> None:
        self._conf = conf
        self._notifier = notifier
        self._stopped = Event()
        self._started = False

    def start(self) -> None:
        """Connect, serve and tell systemd so."""
        conf = self._conf
        tracing.prepare(conf)
        self._database = open_database(conf)
        migrations.check(self._database)
        self._transport = rpc_transport(conf)
        self._make_parts()
        bounding_filters.report(conf, self.destinations.driver.plan.filters)
        if self.destinations.claimer:
            _warn_of_free_alternates(conf)
            _warn_of_old_agents(self._database)
            _forget_idle_groups(self._database)
        self._watching.start(self._database, self.destinations.view, self._server)
        self._heartbeat.start()
        self._keeper.start()
        self._announcements.start()
        self._notifications.start()
        # Requests last: what has taken some must not fail any more.
        self._changes_server.start()
        self._server.start()
        self._started = True
        self._notifier.ready("serving select_destinations")
        self._notifier.watch(self._server.alive)
        LOG.info("Scheduler %s serves select_destinations", conf.host)

    def _make_parts(self) -> None:
        """Make all that is started, in no order to rely on."""
        conf, database = self._conf, self._database
        self._notifications = Notifications(conf)
        self._announcements = Announcements(lambda: self._transport, conf.host, self._read)
        self._watching = Watching(conf)
        self._keeper = Keeper(
            database,
            conf.host,
            _limits(conf),
            prune_more=lambda: claimed_groups.prune(database),
        )
        self._conductor = NovaConductor(rpc_transport(conf))
        self._reconciler = ClaimReconciler(
            lambda: self.destinations.claimer,
            self._conductor.instance,
            lambda: bool(conf.claims.ask_conductor),
        )
        witnesses = (*self._watching.witnesses, self._keeper, self._reconciler)
        tell = self._announcements.tell_of
        self.destinations = build_destinations(conf, database, tell, witnesses)
        self.destinations.film = self._film()
        self._releases = ReleaseQueue(lambda: self.destinations.claimer)
        self._server, self._changes_server = self._servers()
        self._heartbeat = Heartbeat(database, [conf.host], services.SCHEDULER, conf.report_interval)

    def _servers(self) -> tuple[RpcServer, RpcServer]:
        """Return what serves requests, and what agents push to."""
        conf, view = self._conf, self.destinations.view
        endpoints = [
            SchedulerEndpoint(self.destinations, self._notifications),
            TrackingEndpoint(
                Told(view, self._releases.add),
                lambda: bool(conf.filter_scheduler.track_instance_changes),
            ),
            ExplanationsEndpoint(self.destinations),
            BaseEndpoint(),
        ]
        most = conf.scheduler.max_requests_in_flight
        requests = RpcServer(self._transport, TOPIC, conf.host, endpoints, most)
        requests.drop_after(conf.scheduler.request_timeout)
        # One at a time, in the order in which they come: taking them in is work for the CPU.
        pushes = RpcServer(self._transport, changes.TOPIC, conf.host, [ChangesEndpoint(view)], 1)
        return requests, pushes

    def _film(self) -> Film | None:
        """Return what takes pictures of what is decided on, None where nothing is to be kept."""
        return self._keeper.film if self._conf.decisions.keep else None

    def _read(self, node_ids: Collection[int]) -> Written:
        return self._database.read(lambda connection: of_nodes(connection, node_ids))

    def stop(self) -> None:
        """Answer what was taken, then leave. Safe for a service that was never started."""
        if not self._started or self._stopped.is_set():
            self._stopped.set()
            return
        LOG.info("Stopping: no more requests are taken, those under way are answered")
        self._notifier.stopping()
        # Side by side: an idle server may need seconds to notice.
        pushes = Thread(target=self._changes_server.drain, name="pushes")
        pushes.start()
        self._server.drain()
        pushes.join()
        stop_each(
            self._releases.stop,
            self._reconciler.stop,
            self._conductor.close,
            self._announcements.stop,
            self._notifications.stop,
            self._keeper.stop,
            self._heartbeat.stop,
            self._watching.stop,
            lambda: disconnect(self._transport),
            self._database.close,
        )
        self._stopped.set()
        LOG.info("Stopped")

    def wait(self) -> None:
        """Return when the service has stopped."""
        self._stopped.wait()

    def reset(self) -> None:
        """Take over what changed in the configuration, as SIGHUP asks for.

        Filters, weighers and their settings are made anew; a mistake in them leaves the old ones.
        """
        if not self._started:
            return
        self._notifier.reloading()
        mistake = ""
        try:
            driver, attested = _driver(self._conf), attestation.load(self._conf)
            self.destinations.driver, self.destinations.attestation = driver, attested
            self.destinations.claimer = _claimer(
                self._conf, self._database, self._announcements.tell_of
            )
        except (plugins.PluginError, cfg.Error) as error:
            mistake = str(error)
        if mistake:
            LOG.error("Configuration not taken over, the old one stays: %s", mistake)
        else:
            LOG.info("Configuration read again")
            bounding_filters.report(self._conf, self.destinations.driver.plan.filters)
        _settle(self.destinations.view, self._conf)
        self._keeper.limits, self.destinations.film = _limits(self._conf), self._film()
        self._notifier.ready("serving select_destinations")

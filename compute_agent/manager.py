# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The two timers of the agent: a heartbeat that waits for nothing else, and the audits.

All nodes are audited at each interval, and a node at once when the driver reports an event of it.
No failure ends the timers. It is logged when it begins and when it is over; meanwhile the agent
tries again with longer and longer pauses, its host takes no new instances, and the row keeps the
last facts.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Event, Thread

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from compute_agent import identity
from compute_agent.audit.tracker import ResourceTracker
from compute_agent.identity import IdentityError
from compute_agent.lease import Lease
from compute_agent.service_follower import ServiceFollower
from compute_agent.virt.driver import Driver, DriverError, NodeName
from conf.compute_agent import audit_interval
from conf.daemon.state_logger import StateLogger
from conf.service import liveness_limit
from inventory import audit_log, services
from inventory.aggregates import AggregateRecord
from inventory.audit_log import Actor
from inventory.database_errors import DatabaseUnavailable, DataRefused
from inventory.engine import Database
from inventory.errors import some
from inventory.heartbeat import Heartbeat
from inventory.operations import aggregate_mirror
from inventory.operations.aggregate_mirror import Mirrored
from inventory.services import ServiceState

LOG = log.getLogger(__name__)
# Their text says everything; other errors are logged with their traceback.
EXPLAINED = (DriverError, DatabaseUnavailable, DataRefused, IdentityError)
MAX_PAUSE = 60.0
# Until the services are registered.
FIRST_PAUSE = 1.0
# Seconds that a stop waits for an audit that is writing.
STOP_TIMEOUT = 10.0
# Seconds to collect events: one action of an operator makes several, which share an audit.
DEBOUNCE = 0.05
NEVER = float("inf")
# Seconds between two looks whether a driver could do its work, while another agent does it.
STANDBY = 1.0


class Manager:
    """Registers the services of a driver's hosts, sends their heartbeats and audits their nodes."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        driver: Driver,
        tracker: ResourceTracker,
        on_registered: Callable[[], None],
    ) -> None:
        self._conf = conf
        self._database = database
        self._driver = driver
        self._on_registered = on_registered
        self._lease = Lease(database, driver.lease, conf.host) if driver.lease else None
        # The term of the lease in which this agent works, and when that began.
        self._term, self._began = 0, 0.0
        self._heartbeat = Heartbeat(
            database, driver.hosts(), services.COMPUTE, conf.report_interval, self.audit_now
        )
        self._heartbeat.daemon_host = conf.host
        if lease := self._lease:
            self._heartbeat.allowed = lambda: lease.held
            lease.changed = driver.changes.wake
        self._actor = Actor.of_process("berthmaster-agent")
        self._limit = self._heartbeat.limit = liveness_limit(conf)
        self._follower = ServiceFollower(database, self._heartbeat, self._limit)
        self._tracker = tracker
        # Called after each audit with its seconds, and the error if it failed.
        self.observer: Callable[[float, Exception | None], None] = lambda seconds, error: None
        # Called again and again while another agent does the work, with why this one could not.
        self.standby_observer: Callable[[Exception | None], None] = lambda error: None
        self._registered = self._started = self._has_audited = False
        # Whether the driver itself says which services live.
        self._follows = False
        # At first, too: an earlier run of the agent may have disabled the services.
        self._disabled = True
        # As they were written last.
        self._aggregates: Sequence[AggregateRecord] | None = None
        self._failure = ""
        self._state = StateLogger(LOG, "Audits")
        self._switching = StateLogger(LOG, "Disabling the services of failed hosts")
        self._pause = 0.0
        self._late = False
        # Whether all nodes are to be audited at once.
        self._requested = False
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Start with the first audit; return at once."""
        if self._lease:
            self._lease.start()
        self._thread.start()

    def audit_now(self) -> None:
        """Have all nodes audited at once, as after a change of the options; return at once."""
        self._requested = True
        self._driver.changes.wake()

    def stop(self) -> None:
        """Stop both timers, after a write that is under way."""
        self._stopped.set()
        self._driver.close()
        # A driver of a third party may not do so itself.
        self._driver.changes.close()
        if self._thread.ident:
            self._thread.join(STOP_TIMEOUT)
            if self._thread.is_alive():
                LOG.warning("Abandoning an audit blocked on the database")
        self._heartbeat.stop()
        if self._lease:
            self._lease.stop()

    def alive(self) -> bool:
        """Return whether audits are still being made."""
        return self._thread.is_alive()

    def _run(self) -> None:
        due = attempted = time.monotonic()
        changed = frozenset[NodeName]()
        while not self._stopped.is_set():
            if not self._is_in_charge():
                self._driver.changes.wait(STANDBY)
                # All is to be looked at when this agent takes over.
                due, changed = time.monotonic(), frozenset()
                continue
            began = time.monotonic()
            whole = began >= due or self._requested
            news = changed or self._driver.aggregates() is not self._aggregates
            if whole or (news and not self._failure):
                self._requested, attempted = False, began
                pause = self._attempt(None if whole else changed)
                if whole or self._failure:
                    due = began + pause
                    self._log_lateness(due)
            left = due - time.monotonic()
            changed = self._driver.changes.wait(None if left == NEVER else left, DEBOUNCE)
            if changed and self._failure:
                # Events may have been missed: all nodes are audited, but not at each event.
                due = min(due, attempted + self._conf.libvirt.reconnect_interval)

    def _note_start(self) -> None:
        if not self._started:
            self._started = True
            self._on_registered()

    def _is_in_charge(self) -> bool:
        """Return whether this agent does the work; if another does, look whether it could."""
        lease = self._lease
        if lease is None:
            return True
        # In this order: a lease that is taken anew in between is seen at the next call.
        term = lease.term
        if not lease.held:
            if lease.is_anothers:
                # To systemd an agent that stands by has started.
                self._note_start()
                self._stand_by()
            return False
        if term != self._term:
            # Another agent may have written what this one remembers otherwise.
            self._follower = ServiceFollower(self._database, self._heartbeat, self._limit)
            self._aggregates, self._disabled = None, True
            self._term, self._began = term, time.monotonic()
        # What it has read before may be older than what the other has written since.
        return self._driver.is_current(self._began)

    def _stand_by(self) -> None:
        try:
            self._driver.stand_by()
        # The end of this thread would be the end of the standby.
        except Exception as error:
            self.standby_observer(error)
        else:
            self.standby_observer(None)

    def _attempt(self, only: Collection[NodeName] | None = None) -> float:
        """Audit some nodes, or all; return the seconds until the next audit, NEVER for none."""
        began = time.monotonic()
        try:
            self._round(only)
        # The end of this thread would be the end of all audits.
        except Exception as error:
            self.observer(time.monotonic() - began, error)
            return self._failed(error)
        self.observer(time.monotonic() - began, None)
        self._state.recovered()
        if not self._has_audited:
            self._has_audited = True
            hosts, seconds = identity.shortened(self._driver.hosts()), time.monotonic() - began
            LOG.info("Made the first audit of %s in %.1f s", hosts, seconds)
        self._failure, self._pause = "", 0.0
        interval = audit_interval(self._conf)
        return NEVER if interval is None else interval

    def _round(self, only: Collection[NodeName] | None) -> None:
        states = self._driver.service_states()
        self._follows = states is not None
        if states is not None:
            self._follower.serve(self._driver.hosts(), states)
        if not self._registered:
            self._heartbeat.start()
            self._registered = True
            self._note_start()
        # Two agents of one host would overwrite each other's rows.
        if self._heartbeat.duplicates.found:
            raise identity.rivals(self._conf, self._driver)
        if states is not None:
            self._audit_and_follow(states, only)
            return
        self._tracker.audit(self._heartbeat.ids_by_host(), only)
        if self._disabled:
            own = self._heartbeat.ids
            self._switch(lambda each: services.leave_nova(each, own))
            self._disabled = False

    def _audit_and_follow(
        self, states: Mapping[str, ServiceState], only: Collection[NodeName] | None
    ) -> None:
        """Audit as _round() does, and have the services do as theirs of the driver."""
        # First: a new host must not be in the default zone for a moment.
        self._mirror_aggregates()
        follower = self._follower
        follower.report(states)
        # The nodes of a host that is gone end with it.
        self._tracker.audit(
            {**follower.gone, **self._heartbeat.ids_by_host()}, None if follower.gone else only
        )
        # Of all nodes: what an operator has enabled again here may be disabled in Nova.
        follower.switch(states, everything=self._disabled or only is None)
        self._disabled = False

    def _mirror_aggregates(self) -> None:
        wanted = self._driver.aggregates()
        if wanted is None or wanted is self._aggregates:
            return
        found = aggregate_mirror.mirror(self._database, wanted)
        if found != Mirrored():
            written, deleted = some(found.written) or "none", some(found.deleted) or "none"
            LOG.info("Aggregates follow Nova's: %s written, %s deleted", written, deleted)
        self._aggregates = wanted

    def _log_lateness(self, due: float) -> None:
        """Log when audits of all nodes begin to be late, and when they are in time again."""
        if self._failure:
            return
        late = time.monotonic() - due
        if late > 0 and not self._late:
            LOG.warning(
                "An audit of all nodes took %.1f s longer than update_resources_interval", late
            )
        elif late <= 0 and self._late:
            LOG.info("Audits take less time than update_resources_interval again")
        self._late = late > 0

    def _failed(self, error: Exception) -> float:
        """Log a failure and return the seconds after which to try again."""
        if self._stopped.is_set():
            return 0.0
        pause = self._pause * 2 or self._conf.libvirt.reconnect_interval
        # The first heartbeat is sent at once when the database is there, as all others.
        waits = not self._registered and isinstance(error, DatabaseUnavailable)
        longest = FIRST_PAUSE if waits else MAX_PAUSE
        self._pause = min(pause, longest, audit_interval(self._conf) or MAX_PAUSE)
        self._failure = reason = str(error) or repr(error)
        self._state.failed(
            reason,
            "Audit failed, trying again in %g s and then less often: %s",
            self._pause,
            reason,
            exc_info=None if isinstance(error, EXPLAINED) else error,
        )
        is_own = self._registered and not self._follows
        if is_own and not isinstance(error, DatabaseUnavailable):
            self._disable(reason)
        return self._pause

    def _switch(self, work: Callable[[sa.Connection], None]) -> None:
        """Enable or disable the services of this agent, which the audit log has."""
        self._database.write(lambda each: work(audit_log.acting(each, self._actor)))

    def _disable(self, reason: str) -> None:
        """Disable the services, so that schedulers avoid the hosts; rows keep the last facts."""
        self._disabled = True
        self._switching.attempt(
            lambda: self._switch(
                lambda each: services.disable_automatically(each, self._heartbeat.ids, reason)
            ),
            "Schedulers may still choose failed hosts, whose services cannot be disabled: %s",
        )

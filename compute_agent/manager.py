# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The two timers of the agent: a heartbeat that waits for nothing else, and the audits.

All nodes are audited at each interval; those of which the driver hears that something changed are
audited at once. Nothing that fails ends the timers. A failure is logged when it begins and when it
is over; meanwhile the agent tries again, at first soon and then at longer intervals, its host takes
no new instances, and the row keeps the last facts.
"""

import time
from collections.abc import Callable, Collection
from threading import Event, Thread

from oslo_config import cfg
from oslo_log import log

from compute_agent import identity
from compute_agent.identity import IdentityError
from compute_agent.resource_tracker import ResourceTracker
from compute_agent.virt.driver import Driver, DriverError, NodeName
from conf.compute_agent import audit_interval
from inventory import services
from inventory.engine import Database, DatabaseUnavailable
from inventory.heartbeat import Heartbeat

LOG = log.getLogger(__name__)
# Whose text says all that there is to say. What else comes is logged with its traceback.
EXPLAINED = (DriverError, DatabaseUnavailable, IdentityError)
LONGEST_PAUSE = 60.0
# How long a stop waits for an audit that is writing.
PATIENCE = 10.0
# One action of an operator makes several events, which share an audit.
SETTLE = 0.05
NEVER = float("inf")

Witness = Callable[[float, Exception | None], None]


class Manager:
    """Registers the services of a driver's hosts, beats for them and audits their nodes."""

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
        self._heartbeat = Heartbeat(
            database, driver.hosts(), services.COMPUTE, conf.report_interval, self.look_again
        )
        self._tracker = tracker
        # Told of each audit: how many seconds it took, and what ended it if it failed.
        self.witness: Witness = lambda seconds, error: None
        self._registered = False
        # At first, too: the hosts may have been taken out by an earlier run of the agent.
        self._out = True
        self._failure = ""
        self._pause = 0.0
        self._late = False
        # Whether all nodes are to be audited at once.
        self._asked = False
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Begin with the first audit; returns at once."""
        self._thread.start()

    def look_again(self) -> None:
        """Audit all nodes at once, as after a change of the options; returns at once."""
        self._asked = True
        self._driver.changes.wake()

    def stop(self) -> None:
        """End both timers, after the write that may be going on."""
        self._stopped.set()
        self._driver.close()
        # Somebody else's driver may not know that the timer waits for it.
        self._driver.changes.close()
        if self._thread.ident:
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                LOG.warning("Leaving an audit that has waited for the database for too long")
        self._heartbeat.stop()

    def alive(self) -> bool:
        """Tell whether audits are still being made."""
        return self._thread.is_alive()

    def _run(self) -> None:
        due = attempted = time.monotonic()
        changed = frozenset[NodeName]()
        while not self._stopped.is_set():
            began = time.monotonic()
            whole = began >= due or self._asked
            if whole or (changed and not self._failure):
                self._asked, attempted = False, began
                pause = self._attempt(None if whole else changed)
                if whole or self._failure:
                    due = began + pause
                    self._say_if_late(due)
            left = due - time.monotonic()
            changed = self._driver.changes.wait(None if left == NEVER else left, SETTLE)
            if changed and self._failure:
                # Nobody knows what was missed, so all are looked at; and not again at each event.
                due = min(due, attempted + self._conf.libvirt.reconnect_interval)

    def _attempt(self, only: Collection[NodeName] | None = None) -> float:
        """Audit some nodes, or all; return the seconds until the next audit, NEVER for none."""
        began = time.monotonic()
        failure: Exception | None = None
        try:
            self._round(only)
        # A thread that ends would leave the host without audits for good.
        except Exception as error:
            failure = error
        self.witness(time.monotonic() - began, failure)
        # Not up there: oslo.log adds the error to whatever is logged while one is handled.
        return self._succeeded() if failure is None else self._failed(failure)

    def _round(self, only: Collection[NodeName] | None) -> None:
        if not self._registered:
            self._heartbeat.start()
            self._registered = True
            self._on_registered()
        # Two would overwrite each other's rows for ever.
        if self._heartbeat.rivals.there:
            raise identity.rivals(self._conf, self._driver)
        ids = dict(zip(self._driver.hosts(), self._heartbeat.ids, strict=True))
        self._tracker.audit(ids, only)
        if self._out:
            own = self._heartbeat.ids
            self._database.write(lambda each: services.enable_automatically(each, own))
            self._out = False

    def _say_if_late(self, due: float) -> None:
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

    def _succeeded(self) -> float:
        if self._failure:
            LOG.info("Audits succeed again")
        self._failure = ""
        self._pause = 0.0
        interval = audit_interval(self._conf)
        return NEVER if interval is None else interval

    def _failed(self, error: Exception) -> float:
        """Note a failure and return the seconds after which to try again."""
        if self._stopped.is_set():
            return 0.0
        self._pause = min(self._next_pause(), audit_interval(self._conf) or LONGEST_PAUSE)
        reason = str(error) or repr(error)
        if reason != self._failure:
            LOG.warning(
                "Audit failed, trying again in %g s and then less often: %s",
                self._pause,
                reason,
                exc_info=None if isinstance(error, EXPLAINED) else error,
            )
        self._failure = reason
        if self._registered and not isinstance(error, DatabaseUnavailable):
            self._take_out(reason)
        return self._pause

    def _next_pause(self) -> float:
        return min(self._pause * 2 or self._conf.libvirt.reconnect_interval, LONGEST_PAUSE)

    def _take_out(self, reason: str) -> None:
        """Let the scheduler pass over the hosts; their rows keep what was last seen."""
        self._out = True
        try:
            self._database.write(
                lambda each: services.disable_automatically(each, self._heartbeat.ids, reason)
            )
        # The heartbeat, which needs the database as well, will have said so.
        except Exception as error:
            LOG.debug("The hosts could not be disabled: %s", error)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps the flavor mix of a host cache up to date, in a thread of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Event, Thread

import sqlalchemy as sa
from oslo_log import log

from conf.daemon.state_logger import StateLogger
from inventory.engine import Database
from inventory.queries import requested_sizes
from scheduler.hosts.flavor_mix import FlavorMix, learned_mix, make_mix

LOG = log.getLogger(__name__)
# Seconds between two looks, of which most find the mix that is known.
INTERVAL = 60.0
_STOP_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class MixSettings:
    """Where the mix comes from: fixed (vCPUs, MB, MB, weight) each, or what was asked for.

    half_life is in seconds.
    """

    fixed: Sequence[tuple[int, int, int, float]]
    half_life: float


def fixed_mix(settings: MixSettings) -> FlavorMix:
    """Return the configured mix; of a size that is named twice the weights are added."""
    weights: dict[tuple[int, int, int], float] = {}
    for vcpus, memory_mb, disk_mb, weight in settings.fixed:
        size = vcpus, memory_mb, disk_mb
        weights[size] = weights.get(size, 0.0) + weight
    return make_mix(weights)


class RequestedMix:
    """Finds the mix, and hands it over whenever it may have changed."""

    def __init__(
        self, database: Database, settings: MixSettings, use: Callable[[FlavorMix], object]
    ) -> None:
        self._settings = settings
        self._database = database
        self._use = use
        self._known: tuple[MixSettings, datetime] | None = None
        self._is_stopping = False
        self._wakes = Event()
        self._state = StateLogger(LOG, "Reading the flavor mix")
        self._thread = Thread(target=self._run, name="flavor mix", daemon=True)

    def start(self) -> None:
        """Find the mix, and look for a newer one from now on."""
        self._attempt()
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._is_stopping = True
        self._wakes.set()
        if self._thread.ident:
            self._thread.join(_STOP_TIMEOUT)

    def configure(self, settings: MixSettings) -> None:
        """Find the mix by other settings, at once."""
        self._settings = settings
        self._wakes.set()

    def refresh(self) -> None:
        """Hand over the mix if it may have changed; raises DatabaseUnavailable."""
        settings = self._settings
        if settings.fixed:
            self._known = None
            self._use(fixed_mix(settings))
            return
        mix = self._database.read(lambda connection: self._read(connection, settings))
        if mix is not None:
            LOG.debug("Flavor mix of %s sizes", len(mix))
            self._use(mix)

    def _read(self, connection: sa.Connection, settings: MixSettings) -> FlavorMix | None:
        """Return the mix, None where it is the one that is known."""
        until = requested_sizes.counted_until(connection)
        if self._known == (settings, until):
            return None
        requested = requested_sizes.requested(connection, until, settings.half_life)
        found = learned_mix(requested, requested_sizes.present(connection))
        self._known = settings, until
        return found

    def _run(self) -> None:
        while not self._is_stopping:
            self._wakes.wait(INTERVAL)
            self._wakes.clear()
            if not self._is_stopping:
                self._attempt()

    def _attempt(self) -> None:
        text = "Reading the flavor mix failed, keeping the present flavor mix: %s"
        self._state.attempt(self.refresh, text, reason=text)

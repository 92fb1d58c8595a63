# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One db sync at a time, also of several that are at different members of a cluster.

MySQL commits at every change of the schema, so no transaction can exclude others. Named locks are a
member's own, and Percona XtraDB Cluster refuses them: a row of the table leases holds everywhere. A
sync that was killed stops renewing it, and the next one goes on.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from uuid import uuid4

from oslo_db.exception import DBError

from conf.daemon.periodic_thread import PeriodicThread
from inventory import leases
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database

NAME = "db sync"
# Seconds: how long a lease holds, how often it is renewed, how long and how often others ask.
LEASE, RENEWAL = 45.0, 10.0
WAIT, PAUSE = 60.0, 0.5


class SyncUnderWay(Exception):
    """Another sync has had the lease for all the time that this one waited."""


@contextmanager
def held(database: Database) -> Iterator[None]:
    """Exclude other syncs; the table leases must be there. Raises SyncUnderWay."""
    owner = f"{socket.gethostname()}, process {os.getpid()}, {uuid4().hex[:8]}"
    _take(database, owner)

    def renew() -> None:
        # The sync itself meets the same error, or goes on if it was a short one.
        with suppress(DatabaseUnavailable, DBError):
            leases.hold(database, NAME, owner, LEASE)

    renewal = PeriodicThread(NAME, renew, RENEWAL)
    renewal.start()
    try:
        yield
    finally:
        renewal.stop()
        leases.release(database, NAME, owner)


def _take(database: Database, owner: str) -> None:
    until = monotonic() + WAIT
    while (holder := leases.hold(database, NAME, owner, LEASE)) != owner:
        if monotonic() > until:
            raise SyncUnderWay(
                f"another db sync has been at work for {WAIT:g} s, on host {holder}; try again"
            )
        sleep(PAUSE)

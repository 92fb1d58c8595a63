# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One destination of an answer."""

from dataclasses import dataclass

from scheduler.objects.limits import SchedulerLimits
from scheduler.objects.presence import FieldPresence


@dataclass(frozen=True, slots=True)
class Selection(FieldPresence):
    """A host with what the caller needs to claim it.

    ``allocation_request`` is JSON text, or None when the claim is not made in placement. An
    ``availability_zone`` of None means unknown: the caller then looks it up.
    """

    service_host: str
    nodename: str
    compute_node_uuid: str = ""
    cell_uuid: str = ""
    limits: SchedulerLimits | None = None
    allocation_request: str | None = None
    allocation_request_version: str | None = None
    availability_zone: str | None = None

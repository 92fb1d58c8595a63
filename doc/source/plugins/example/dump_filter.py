# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A first plug-in: it logs all that a filter can know and refuses no host."""

import logging
from dataclasses import fields

from scheduler.filters import BaseHostFilter
from scheduler.hosts.table import NUMBERS, OBJECTS

LOG = logging.getLogger(__name__)
HOST = sorted({*NUMBERS, *OBJECTS, "instances", "limits", "service"})
# Beside the fields of the request, in the units that the attributes of a host have.
FIGURES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "disk_mb")


class DumpFilter(BaseHostFilter):
    """Keep all hosts and log what they have and what is asked for."""

    def host_passes(self, host_state, spec_obj):
        names = (*FIGURES, *(each.name for each in fields(spec_obj)))
        LOG.info("Request: %s", _shown(spec_obj, names))
        LOG.info("Host %s: %s", host_state.host, _shown(host_state, HOST))
        return True


def _shown(thing, names):
    return ", ".join(f"{name}={getattr(thing, name)!r}" for name in names)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for memory."""

from scheduler.filters._bounds import OvercommitFilter
from scheduler.hosts.resources import MEMORY


class RamFilter(OvercommitFilter):
    """Keep the hosts with enough free memory, over-commit included."""

    kind, reads = MEMORY, MEMORY.columns
    row_local = True

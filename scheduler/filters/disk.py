# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for local disk."""

from scheduler.filters._bounds import OvercommitFilter
from scheduler.hosts.resources import DISK


class DiskFilter(OvercommitFilter):
    """Keep the hosts with enough free disk for root, ephemeral and swap, over-commit included."""

    kind, reads = DISK, DISK.columns
    row_local = True

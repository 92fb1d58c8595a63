# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for free disk."""

from scheduler.weighers import ColumnWeigher


class DiskWeigher(ColumnWeigher):
    """Prefer the hosts with more free disk, in MB."""

    minval = 0.0
    aggregate_key = "disk_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "disk_weight_multiplier"),)
    reads = ("free_disk_mb",)
    row_local = True

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for free memory."""

from scheduler.weighers import ColumnWeigher


class RAMWeigher(ColumnWeigher):
    """Prefer the hosts with more free memory, in MB."""

    minval = 0.0
    aggregate_key = "ram_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "ram_weight_multiplier"),)
    reads = ("free_ram_mb",)
    row_local = True

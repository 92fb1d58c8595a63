# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for input and output."""

from scheduler.weighers import ColumnWeigher


class IoOpsWeigher(ColumnWeigher):
    """Prefer the hosts with fewer instances that are busy with input and output."""

    minval = 0.0
    multiplier = -1.0
    aggregate_key = "io_ops_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "io_ops_weight_multiplier"),)
    reads = ("num_io_ops",)
    row_local = True

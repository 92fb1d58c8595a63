# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for the number of instances."""

from scheduler.weighers import ColumnWeigher


class NumInstancesWeigher(ColumnWeigher):
    """Prefer the hosts with more instances, or with fewer where the multiplier is negative."""

    multiplier = 0.0
    aggregate_key = "num_instances_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "num_instances_weight_multiplier"),)
    reads = ("num_instances",)
    row_local = True

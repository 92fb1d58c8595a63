# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for builds that failed."""

from scheduler.weighers import ColumnWeigher


class BuildFailureWeigher(ColumnWeigher):
    """Prefer the hosts on which fewer builds have failed since the last one that succeeded."""

    multiplier = 1000000.0
    sign = -1.0
    aggregate_key = "build_failure_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "build_failure_weight_multiplier"),)
    reads = ("failed_builds",)
    row_local = True

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for the number of instances."""

from typing import ClassVar

from scheduler.filters._bounds import LoadFilter


class NumInstancesFilter(LoadFilter):
    """Keep the hosts with fewer instances than they may have, stopped ones included."""

    most = 50
    options = (("most", "filter_scheduler", "max_instances_per_host"),)
    resource = "instances"
    noun = ("instance", "instances")
    refusal_text = "has {}, {} allowed"
    reads: ClassVar[tuple[str, ...]] = ("num_instances",)
    row_local = True

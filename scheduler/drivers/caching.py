# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The driver for large clouds of Icehouse to Rocky: filter and weigh hosts as they were."""

from scheduler.drivers.filter_scheduler import FilterScheduler


class CachingScheduler(FilterScheduler):
    """Decides as FilterScheduler, on a view of the hosts that may be older."""

    view_max_age: float | None = 60
    options = (("view_max_age", "scheduler", "driver_task_period"),)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for instances that are busy with input and output."""

from typing import ClassVar

from scheduler.filters._bounds import LoadFilter


class IoOpsFilter(LoadFilter):
    """Keep the hosts with fewer instances busy with input and output than they may have."""

    most = 8
    options = (("most", "filter_scheduler", "max_io_ops_per_host"),)
    resource = "io_ops"
    noun = ("instance is busy with input and output", "instances are busy with input and output")
    reads: ClassVar[tuple[str, ...]] = ("num_io_ops",)
    row_local = True

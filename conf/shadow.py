# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the shadow: another configuration that decides beside the one in use."""

from oslo_config import cfg

OPTS = [
    cfg.StrOpt(
        "config",
        default="",
        help="""
Configuration file by which each request is decided once more, after it was answered.

Nothing is claimed by it. A process of its own follows the saved decisions ([decisions] keep), with
the filters and weighers of that file, on the hosts as they would be had these decided since it
began; 'berthmaster shadow report' shows what is different. Of several schedulers with this option
one does so at a time. Empty disables it.
""",
    )
]

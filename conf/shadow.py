# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the shadow: another configuration that decides beside the one in use."""

from oslo_config import cfg

OPTS = [
    cfg.StrOpt(
        "config",
        default="",
        help="""
Configuration file with which each request is decided a second time, after it was answered.

The second decision claims nothing. A separate process, the shadow, follows the saved decisions
([decisions] keep) with the filters and weighers of this file, on the hosts as they would be if this
file had decided since the shadow began; 'berthmaster shadow report' shows the differences. Of
several schedulers with this option, only one has a shadow at a time. An empty value disables the
shadow.
""",
    )
]

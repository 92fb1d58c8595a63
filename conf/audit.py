# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the audit log, which Nova does not have."""

from oslo_config import cfg

OPTS = [
    cfg.IntOpt(
        "keep",
        default=90 * 24 * 3600,
        min=1,
        help="""
Seconds for which the audit log keeps what operators and agents have changed.

Schedulers delete older entries about once a minute; the smallest value of all schedulers counts.
""",
    )
]

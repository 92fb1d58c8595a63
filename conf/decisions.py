# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of saved decisions."""

from oslo_config import cfg

OPTS = [
    cfg.BoolOpt(
        "keep",
        default=True,
        help="""
Save each decision in the database with all its inputs, so that it can be explained and replayed.

Decisions are written in the background, shortly after the answer. While the database is down,
decisions wait in memory up to a limit; further decisions are lost. Requests never wait for this. If
disabled, saved decisions are still deleted after max_age.
""",
    ),
    cfg.IntOpt(
        "max_age",
        default=7 * 24 * 3600,
        min=1,
        help="""
Seconds for which a decision is saved.

Saved requests contain ids of projects and users: lower this value if such ids must be deleted
earlier.
""",
    ),
    cfg.IntOpt(
        "max_number",
        default=10_000,
        min=1,
        help="""
Maximum number of saved decisions of all schedulers together; the oldest are deleted.

All schedulers of a cloud should have the same value: the smallest one counts. Deletion takes up to
a minute.
""",
    ),
]

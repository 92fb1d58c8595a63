# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of kept decisions: what schedulers remember of how they decided."""

from oslo_config import cfg

OPTS = [
    cfg.BoolOpt(
        "keep",
        mutable=True,
        default=True,
        help="""
Keep each decision in the database, with all that it was made from, so that it can be explained and
made again.

It is written in the background, some moments after the answer; while the database cannot take it,
decisions wait in memory for a while and are lost after that, and no request waits for it. Turned
off, nothing more is kept; what is there goes when it is older than max_age.
""",
    ),
    cfg.IntOpt(
        "max_age",
        mutable=True,
        default=7 * 24 * 3600,
        min=1,
        help="""
Seconds for which a decision is kept.

Requests are kept as they were, with ids of projects and users: lower it where these must not be
kept for so long.
""",
    ),
    cfg.IntOpt(
        "max_number",
        mutable=True,
        default=10_000,
        min=1,
        help="""
How many decisions are kept, the newest of all schedulers together.

All schedulers of a cloud should have the same value: the smallest one counts. Some more are there
for a minute, until they are deleted.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="decisions")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("decisions", OPTS)]

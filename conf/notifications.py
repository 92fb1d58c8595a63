# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the notifications that the scheduler sends."""

from oslo_config import cfg

OPTS = [
    cfg.StrOpt(
        "notification_format",
        default="unversioned",
        choices=["unversioned", "versioned", "both"],
        help="""
Format of the notifications. The scheduler sends the unversioned ones, on the topics of
[oslo_messaging_notifications] and only when a driver is set there; with 'versioned' it sends none.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="notifications")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("notifications", OPTS)]

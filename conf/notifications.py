# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the notifications that the scheduler sends."""

from oslo_config import cfg

OPTS = [
    cfg.StrOpt(
        "notification_format",
        default="unversioned",
        choices=[
            ("unversioned", "Only legacy notifications, with the request as a dictionary."),
            ("versioned", "Only versioned notifications, with the request as a payload object."),
            ("both", "Each notification in both formats."),
        ],
        help="""
Format of the notifications: scheduler.select_destinations.start, .end and, for a request that
fails, .error. They are sent only when [oslo_messaging_notifications] names a driver: messagingv2,
as a rule. Choose the format that your consumers read.

Requests do not wait for notifications. Up to 1000 are kept while their broker does not take them;
more than that are lost, which the log says once.
""",
    ),
    cfg.ListOpt(
        "versioned_notifications_topics",
        default=["versioned_notifications"],
        help="""
Topics of the versioned notifications; each of them gets every one. Legacy notifications go to
[oslo_messaging_notifications] topics. On RabbitMQ each topic is a queue for each priority, as in
versioned_notifications.info and versioned_notifications.error, which grows until somebody
consumes it: change this only to give a consumer a topic of its own.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="notifications")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("notifications", OPTS)]

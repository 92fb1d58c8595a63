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
Format of the notifications scheduler.select_destinations.start, .end and, for a failed request,
.error. They are sent only if [oslo_messaging_notifications] names a driver, such as messagingv2.

Requests do not wait for notifications. Up to 1000 notifications are queued while their broker is
down; further notifications are lost, with a message in the log.
""",
    ),
    cfg.ListOpt(
        "versioned_notifications_topics",
        default=["versioned_notifications"],
        help="Topics of the versioned notifications; each topic gets all of these notifications."
        " Legacy notifications go to [oslo_messaging_notifications] topics. On RabbitMQ each"
        " topic has a queue for each priority, such as versioned_notifications.info, which"
        " grows until it is consumed: change this only to give a consumer a topic of its"
        " own.",
    ),
]

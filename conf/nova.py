# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options that say which databases and services of a Nova cloud are read."""

from oslo_config import cfg

API_DATABASE_OPTS = [
    cfg.StrOpt(
        "connection",
        secret=True,
        help="URL of Nova's API database; the option has the same name as in Nova. The database"
        " is only read, so an account that may only read is enough. If unset, there is no"
        " Nova cloud to read.",
    )
]
OPTS = [
    cfg.StrOpt(
        "cell_template_connection",
        secret=True,
        help="URL whose parts fill in the database URLs of cells if these are templates, such as"
        " {scheme}://{username}:{password}@{hostname}/nova. Set this option to the value of"
        " [database] connection in the configuration of Nova's conductors; here, [database]"
        " connection names our own database instead.",
    ),
    cfg.StrOpt(
        "cell_username",
        help="Account with which the databases of all cells are read, instead of the accounts in"
        " Nova's cell mappings, which may write.",
    ),
    cfg.FloatOpt(
        "poll_interval",
        default=1.0,
        min=0.1,
        help="Seconds between two queries of compute_driver = nova to each of Nova's databases,"
        " for what has changed there.",
    ),
    cfg.FloatOpt(
        "quick_poll_interval",
        default=0.2,
        min=0.05,
        help="Seconds between two queries of compute_driver = nova for only the states of compute"
        " services and the aggregates. If a query takes long, the interval grows, so that"
        " such queries take at most a tenth of the time. With poll_interval or more, there"
        " are no such queries.",
    ),
    cfg.IntOpt(
        "full_poll_interval",
        default=600,
        min=1,
        help="Seconds after which compute_driver = nova reads Nova's databases completely, to"
        " find changes that it may have missed.",
    ),
    cfg.StrOpt("cell_password", secret=True, help="Password of [nova] cell_username."),
]

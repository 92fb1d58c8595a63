# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options that say which databases and services of a Nova cloud are read."""

from oslo_config import cfg

API_DATABASE_OPTS = [
    cfg.StrOpt(
        "connection",
        secret=True,
        help="URL of Nova's API database, with Nova's own name of the option. It is only read, so"
        " an account that may only read it is enough. Unset, there is no Nova cloud to read.",
    )
]
OPTS = [
    cfg.StrOpt(
        "cell_template_connection",
        secret=True,
        help="URL that fills in the database URLs of cells that are templates, such as"
        " {scheme}://{username}:{password}@{hostname}/nova. Set it to what [database] connection"
        " is in the configuration of Nova's conductors; that option names another database here,"
        " our own.",
    ),
    cfg.StrOpt(
        "cell_username",
        help="Account to read the databases of all cells with, in place of those in Nova's cell"
        " mappings, which may write.",
    ),
    cfg.FloatOpt(
        "poll_interval",
        default=1.0,
        min=0.1,
        help="Seconds between two questions of compute_driver = nova to each of Nova's databases,"
        " about what has changed there.",
    ),
    cfg.FloatOpt(
        "quick_poll_interval",
        default=0.2,
        min=0.05,
        help="Seconds between two questions of compute_driver = nova about the states of compute"
        " services and about aggregates alone. Where an answer takes long, they are asked for so"
        " seldom that it takes a tenth of the time. At poll_interval or above there are no such"
        " questions.",
    ),
    cfg.IntOpt(
        "full_poll_interval",
        default=600,
        min=1,
        help="Seconds after which compute_driver = nova reads Nova's databases whole, to find what"
        " it may have missed.",
    ),
    cfg.StrOpt("cell_password", secret=True, help="Password of [nova] cell_username."),
]

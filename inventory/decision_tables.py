# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of kept decisions, all of them ours, beside those of what there is."""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from inventory.tables import MOMENT, OPTIONS

# All tables are in it once this module is imported.
from inventory.tables import metadata as metadata

# A busy cloud makes as many decisions in a year as an ordinary integer has numbers.
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_BYTES = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("request_id", sa.String(255), index=True),
    sa.Column("project_id", sa.String(255)),
    sa.Column("decided_at", MOMENT, nullable=False, index=True),
    # The name of the host that it runs on.
    sa.Column("scheduler", sa.String(255), nullable=False),
    sa.Column("outcome", sa.String(16), nullable=False),
    # How many there were to place, and where the first of them went.
    sa.Column("instances", sa.Integer, nullable=False),
    sa.Column("hosts", sa.String(255)),
    sa.Column("milliseconds", sa.Double, nullable=False),
    sa.Column("conflicts", sa.Integer, nullable=False),
    # What it was decided on: the number of a frame in a film of the hosts.
    sa.Column("film", sa.String(64), nullable=False),
    sa.Column("frame", sa.Integer, nullable=False),
    sa.Column("document", _BYTES, nullable=False),
    sa.UniqueConstraint("film", "frame", name="uniq_decisions_frame"),
    # A number that somebody wrote down never means another decision later.
    sqlite_autoincrement=True,
    **OPTIONS,
)

# No foreign keys here and below: who adds a row would lock the one that it refers to.
decision_instances = sa.Table(
    "decision_instances",
    metadata,
    sa.Column("decision_id", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("instance_uuid", sa.String(36), primary_key=True),
    sa.Index("ix_decision_instances_instance_uuid", "instance_uuid"),
    **OPTIONS,
)

# Some frames of a film, in pieces that any server takes.
decision_inputs = sa.Table(
    "decision_inputs",
    metadata,
    sa.Column("film", sa.String(64), primary_key=True),
    # The number of the first of these frames; all of them were added at once.
    sa.Column("first", sa.Integer, primary_key=True, autoincrement=False, quote=True),
    sa.Column("piece", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("written_at", MOMENT, nullable=False),
    sa.Column("data", _BYTES, nullable=False),
    sa.Index("ix_decision_inputs_film_written_at", "film", "written_at"),
    **OPTIONS,
)

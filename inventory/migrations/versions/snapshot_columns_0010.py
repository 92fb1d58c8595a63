# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The columns of snapshots get the names that the code uses; the schema of the first release."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
# Code of 0009 does not know the new names. It was in no release.
oldest_code = "0010"

_LOG, _NUMBER = "snapshot_log", "snapshot_number"
_OLD_UNIQUE, _UNIQUE = "uniq_decisions_frame", "uniq_decisions_snapshot"
_OLD_INDEX = "ix_decision_inputs_film_written_at"
_INDEX = "ix_decision_inputs_snapshot_log_written_at"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        if _has_film("decisions"):
            _rename_in_sqlite()
        return
    # One statement for each table: a sync may be killed between two of them.
    if _has_film("decisions"):
        op.execute(
            f"ALTER TABLE decisions RENAME COLUMN film TO {_LOG},"
            f" RENAME COLUMN frame TO {_NUMBER}, RENAME INDEX {_OLD_UNIQUE} TO {_UNIQUE}"
        )
    if _has_film("decision_inputs"):
        op.execute(
            f"ALTER TABLE decision_inputs RENAME COLUMN film TO {_LOG},"
            f" RENAME INDEX {_OLD_INDEX} TO {_INDEX}"
        )


def _has_film(table: str) -> bool:
    columns = sa.inspect(op.get_bind()).get_columns(table)
    return "film" in {column["name"] for column in columns}


def _rename_in_sqlite() -> None:
    """Rename all in the transaction of the sync. To rename a constraint, the table is copied."""
    connection = op.get_bind()
    op.execute(f"ALTER TABLE decisions RENAME COLUMN film TO {_LOG}")
    op.execute(f"ALTER TABLE decisions RENAME COLUMN frame TO {_NUMBER}")
    of_decisions = "sqlite_sequence WHERE name = 'decisions'"
    last_id = connection.scalar(sa.text(f"SELECT seq FROM {of_decisions}"))
    with op.batch_alter_table("decisions", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.drop_constraint(_OLD_UNIQUE, type_="unique")
        table.create_unique_constraint(_UNIQUE, [_LOG, _NUMBER])
    if last_id is not None:
        # The copy only knows the rows that are left, and would use ids of deleted ones again.
        op.execute(f"DELETE FROM {of_decisions}")
        op.execute(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('decisions', {last_id:d})")
    op.execute(f"ALTER TABLE decision_inputs RENAME COLUMN film TO {_LOG}")
    op.drop_index(_OLD_INDEX, "decision_inputs")
    op.create_index(_INDEX, "decision_inputs", [_LOG, "written_at"])

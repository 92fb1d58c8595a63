# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What fits for a filter fits for the database, to the last bit of a limit."""

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.fits import limit, within

AMOUNTS = st.integers(0, 2**31 - 1)
RATIOS = st.sampled_from([0.1, 0.9, 1.0, 1.1, 1.15, 1.5, 4.0, 16.0]) | st.floats(0, 100)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(AMOUNTS, RATIOS, AMOUNTS, st.integers(-2, 2), st.booleans())
def test_the_database_judges_as_filters_do(database, total, ratio, used, beside, in_gb):
    most = limit(float(total), ratio)
    # As near to the limit as can be, since there they might differ.
    requested = int(most) - used + beside
    unit = 1024 if in_gb else 1
    statement = sa.select(
        within(
            sa.bindparam("most", most / unit, type_=sa.Double) * unit,
            sa.bindparam("used", used, type_=sa.BigInteger),
            sa.bindparam("more", requested, type_=sa.BigInteger),
        )
    )
    found = database.read(lambda connection: connection.scalar(statement))
    assert bool(found) == within(most, used, requested)

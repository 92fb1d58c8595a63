# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Figures from values that others report and that need not be numbers."""

import math
from typing import Any


def figure(value: Any) -> float:
    """Return a number, or a text that spells one, as a float; NaN for everything else."""
    try:
        number = float(value)
    # Digits by the hundred are too much for a float.
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan

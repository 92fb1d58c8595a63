# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the filters for vCPUs, memory and disk have in common: room, and words for the lack of it.

Source: behaviour reference 1.4.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from inventory.fits import fits, limit
from scheduler.decision.host_table import Mask
from scheduler.decision.scaling import Weights

Amounts = npt.NDArray[Any]


def room(total: Amounts, used: Amounts, ratios: Weights, requested: int) -> tuple[Mask, Weights]:
    """Return where requested more fits, and how much of each host may be promised."""
    # A ratio from metadata is any number that someone wrote, so the limit may become infinite.
    with np.errstate(over="ignore"):
        return fits(total, used, ratios, requested), limit(total, ratios)


def shortage(total: int, used: int, ratio: float, requested: int, unit: str) -> str:
    """Say why requested more does not fit; the ratio is NaN where nobody has reported it."""
    if requested > total:
        return f"needs {requested} {unit}, the host has only {total}"
    if np.isnan(ratio):
        return f"needs {requested} {unit}, no allocation ratio of the host is known"
    left = limit(total, float(ratio)) - used
    return f"needs {requested} {unit}, {left:.15g} left of {total} x {float(ratio)}"

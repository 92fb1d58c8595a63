# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the filters for vCPUs, memory and disk have in common: room, and words for the lack of it.

Source: behaviour reference 1.4.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from inventory.fits import fits, limit
from scheduler.decision.host_table import Mask
from scheduler.decision.outcome import Lack
from scheduler.decision.scaling import Weights

Amounts = npt.NDArray[Any]


class Held(NamedTuple):
    """What a host has of a resource, and uses of it; the ratio is NaN where nobody reported it."""

    total: int
    used: int
    ratio: float


def room(total: Amounts, used: Amounts, ratios: Weights, requested: int) -> tuple[Mask, Weights]:
    """Return where requested more fits, and how much of each host may be promised."""
    # A ratio from metadata is any number that someone wrote, so the limit may become infinite.
    with np.errstate(over="ignore"):
        return fits(total, used, ratios, requested), limit(total, ratios)


def shortage(held: Held, requested: int, unit: str) -> str:
    """Say why requested more does not fit."""
    total, used, ratio = held
    if requested > total:
        return f"needs {requested} {unit}, the host has only {total}"
    if np.isnan(ratio):
        return f"needs {requested} {unit}, no allocation ratio of the host is known"
    left = limit(total, float(ratio)) - used
    return f"needs {requested} {unit}, {left:.15g} left of {total} x {float(ratio)}"


def lack(held: Held, requested: int, resource: str) -> Lack | None:
    """Return by how much less would fit, None where no number can be given."""
    total, used, ratio = held
    left = limit(total, float(ratio)) - used
    # Of a ratio that is not known the limit is no number, which min() would let through.
    most = left if math.isnan(left) else min(float(total), left)
    return Lack(resource, requested - math.floor(most)) if math.isfinite(most) else None


def too_many(count: int, allowed: float, resource: str) -> Lack | None:
    """Return how many fewer would be less than allowed, None where that is fewer than none."""
    fewer = count - math.ceil(allowed) + 1
    return Lack(resource, fewer) if fewer <= count else None

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Raw weights to the range from 0 to 1, so that weighers can be added up."""

import math

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float64]


def scaled(raw: Weights, minval: float | None = None, maxval: float | None = None) -> Weights:
    """Return (raw - low) / (high - low), each raw weight clamped to minval and maxval first.

    low and high are minval and maxval where they are given, else the extremes of raw itself; where
    they are equal every host gets 0. A weight that is no number counts as low.
    """
    if not len(raw):
        return raw
    least, most = float(raw.min()), float(raw.max())
    if not math.isfinite(least) or not math.isfinite(most):
        return _scaled_odd(raw, minval, maxval)
    low = least if minval is None else minval
    high = most if maxval is None else maxval
    if least < low or most > high:
        raw = np.clip(raw, low, high)
    return between(raw, low, high)


def between(raw: Weights, low: float, high: float) -> Weights:
    """Return (raw - low) / (high - low) for numbers from low to high, 0 where that is no range."""
    if high <= low:
        # All are equal, or below minval and so equal once they are clamped.
        return np.zeros(len(raw))
    if not math.isfinite(high - low):
        # The difference of two huge numbers; that of their halves is one.
        raw, low, high = raw / 2, low / 2, high / 2
    # Most ranges begin at 0, and a step less is a sixth of the cost.
    return (raw - low if low else raw) / (high - low)


def place_between(value: float, low: float, high: float) -> float:
    """Return between() of a single number, clamped to the range first, to the very bit."""
    if high <= low:
        return 0.0
    value = min(max(value, low), high)
    if not math.isfinite(high - low):
        value, low, high = value / 2, low / 2, high / 2
    return (value - low) / (high - low)


def _scaled_odd(raw: Weights, minval: float | None, maxval: float | None) -> Weights:
    """Return scaled() of weights some of which are no numbers."""
    finite = raw[np.isfinite(raw)]
    if not len(finite):
        return np.zeros(len(raw))
    low = float(finite.min()) if minval is None else minval
    high = float(finite.max()) if maxval is None else maxval
    # Both ends are numbers now, so those in between are, too.
    return scaled(np.where(np.isfinite(raw), np.clip(raw, low, high), low), low, high)

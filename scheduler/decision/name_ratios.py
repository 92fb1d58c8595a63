# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Settings that give names a ratio each, such as cpu.idle.percent=1.0.

Source: behaviour reference 1.5 (MetricsFilter), 2.3 (MetricsWeigher, ImagePropertiesWeigher), 5.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple


class NameRatios(NamedTuple):
    """What a list of settings says: the (name, ratio) pairs in order, and what was left out."""

    ratios: list[tuple[str, float]]
    refused: list[str]

    def warn(self, warn: Callable[[str], None], option: str) -> None:
        """Say of each setting that was left out that it was, and of which option it is a part."""
        for setting in self.refused:
            warn(f"{option} has {setting!r}, which is no name=ratio and is ignored")


def name_ratios(settings: Iterable[str] | None) -> NameRatios:
    """Return the pairs of a list of "name=ratio", blanks around both left out.

    A name ends at the first "=" and may not be empty; a ratio is a finite number. None is an empty
    list. A name that is given twice is returned twice: whether its ratios add up or the last one
    counts is for the caller.
    """
    found = NameRatios([], [])
    for setting in settings or ():
        name, _, ratio = (part.strip() for part in str(setting).partition("="))
        try:
            number = float(ratio)
        except ValueError:
            number = math.nan
        if name and math.isfinite(number):
            found.ratios.append((name, number))
        else:
            found.refused.append(str(setting))
    return found

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a request fits: the one place for the arithmetic of totals, ratios and limits.

All functions work on single numbers and on numpy arrays alike; amounts of one call share one unit.
"""

from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

Amount = TypeVar("Amount", int, float, npt.NDArray[np.float64])


def local_disk_mb(root_gb: int, ephemeral_gb: int, swap_mb: int) -> int:
    """Return how much local disk an instance takes, in MB; of columns, the term of a query."""
    return 1024 * (root_gb + ephemeral_gb) + swap_mb


def whole_gb(megabytes: int) -> int:
    """Return an amount of disk in GB, rounded up."""
    return -(-megabytes // 1024)


def limit(total: Amount, ratio: Amount) -> Amount:
    """Return the limit of a resource, over-commit included."""
    return total * ratio


@overload
def fits(total: float, used: float, ratio: float, requested: float) -> bool: ...


@overload
def fits(
    total: npt.NDArray[Any], used: npt.NDArray[Any], ratio: npt.NDArray[Any], requested: float
) -> npt.NDArray[np.bool_]: ...


def fits(total: Any, used: Any, ratio: Any, requested: float) -> Any:
    """Return where requested more fits: within the limit, and alone within the total.

    So over-commit never gives one instance more than a host physically has. used may be above the
    limit, where a ratio was lowered or a host shrank.
    """
    return fits_under(limit(total, ratio), total, used, requested)


def fits_under(limit: Any, total: Any, used: Any, requested: float) -> Any:
    """Return fits() where the limit of total x ratio is known."""
    return (total >= requested) & within(limit, used, requested)


def copies(limit: Any, used: Any, requested: float) -> Any:
    """Return how many times requested fits into the limit, infinite for 0."""
    if not requested:
        return np.full(np.shape(limit), np.inf)
    # A tenth of the time of floor division. The quotient may have been rounded up.
    free = limit - used
    whole = np.floor(free / requested)
    return np.maximum(0.0, whole - (whole * requested > free))


def copies_of_each(
    free: Sequence[npt.NDArray[Any]], inverses: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return how many copies of each flavor fit into what is free on each host, as a matrix.

    free has an array of whole amounts for each resource, inverses a row for each: 1 divided by the
    whole amounts that the flavors need, infinite where they need nothing. This is the smallest of
    copies(), 0 where a host is over its limit, for a small part of the cost.
    """
    # Half a unit more keeps rounding from losing a copy that fits exactly.
    found = np.multiply.outer(free[0] + 0.5, inverses[0])
    for amounts, inverse in zip(free[1:], inverses[1:], strict=True):
        np.minimum(found, np.multiply.outer(amounts + 0.5, inverse), out=found)
    return np.asarray(np.maximum(np.floor(found, out=found), 0.0, out=found))


def within(limit: Any, used: Any, requested: Any) -> Any:
    """Return where requested more stays within the limit."""
    return limit - used >= requested

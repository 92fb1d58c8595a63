# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a caller hears about arguments that cannot be read."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from scheduler.objects.kinds import Malformed
from scheduler.rpc.failures import InvalidInput

P = ParamSpec("P")
T = TypeVar("T")


def refusing_malformed(decode: Callable[P, T]) -> Callable[P, T]:
    """Let a decoder answer malformed input with InvalidInput, which names the field."""

    @wraps(decode)
    def decode_or_refuse(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return decode(*args, **kwargs)
        except Malformed as wrong:
            raise InvalidInput(str(wrong)) from None

    return decode_or_refuse

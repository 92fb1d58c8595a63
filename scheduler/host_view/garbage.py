# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The garbage collector, which looks through all that there is as more and more comes to stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_alone(much: bool) -> Iterator[None]:
    """Collect no garbage meanwhile, if very many objects are made, of which most stay."""
    if not much or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

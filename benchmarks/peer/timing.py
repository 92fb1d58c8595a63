# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a call costs: the same clock and the same loop for us and for Nova."""

import time
from collections.abc import Callable


def microseconds(call: Callable[[], object], times: int) -> float:
    """Return the processor's time of one of so many calls: what others have of it is not ours."""
    began = time.process_time()
    for _ in range(times):
        call()
    return 1e6 * (time.process_time() - began) / times

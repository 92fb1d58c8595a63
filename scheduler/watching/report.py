# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the report on SIGUSR2 says of a scheduler: how old its view is, what it did last."""

import time
from collections import deque
from datetime import UTC, datetime

from conf.report import add_section
from scheduler.course import Course
from scheduler.host_view import HostView
from scheduler.rpc.server import RpcServer

# So many requests are remembered.
LAST = 10
# When a request ended, its first instance, its outcome, and how long it took.
_Ended = tuple[float, str | None, str, float]


class Report:
    """A witness that remembers the last requests."""

    def __init__(self) -> None:
        self._last: deque[_Ended] = deque(maxlen=LAST)

    def ended(self, course: Course) -> None:
        """Remember a request that is over."""
        first = course.instance_uuids[0] if course.instance_uuids else None
        self._last.append((time.time(), first, course.outcome, course.total))

    def register(self, view: HostView, requests: RpcServer) -> None:
        """Give the report its section."""
        add_section("Scheduler", lambda: self.facts(view, requests))

    def facts(self, view: HostView, requests: RpcServer) -> dict[str, object]:
        """Return the section; it takes no locks."""
        return {
            "seconds since the view was read": f"{view.age:.1f}",
            "requests in flight": requests.in_flight,
            "last requests": [_line(each) for each in tuple(self._last)],
        }


def _line(ended: _Ended) -> str:
    moment, first, outcome, total = ended
    at = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    return f"{at} {first or '(no uuid)'} {outcome} in {1000 * total:.1f} ms"

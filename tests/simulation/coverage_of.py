# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which lines of the product histories reach: of claims, rounds, the claimer and the keeper."""

import sys
from tempfile import TemporaryDirectory

from coverage import Coverage

OPTION = "--coverage"
FILES = [
    *("inventory/claims/*.py", "scheduler/claims/rounds.py", "scheduler/claims/claimer.py"),
    *("scheduler/claims/claim_request.py", "scheduler/claims/protection.py"),
    *("scheduler/claims/standby_*.py", "scheduler/claims/release_queue.py"),
    "scheduler/select_destinations/claimed_request.py",
]


class Measured:
    """Measures from now on; each process that is forked off saves what it has reached."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory()
        self._coverage = Coverage(
            data_file=f"{self._directory.name}/data",
            data_suffix=True,
            concurrency="greenlet",
            include=FILES,
            config_file=False,
        )
        self._coverage.start()

    def save(self) -> None:
        """Save what this process has reached."""
        self._coverage.stop()
        self._coverage.save()

    def report(self) -> None:
        """Print what all processes have reached, and the lines that none has."""
        self._coverage.stop()
        self._coverage.combine([self._directory.name])
        self._coverage.report(show_missing=True, file=sys.stdout)

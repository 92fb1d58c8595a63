# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The end of a process: what fails in one part keeps no other from ending well."""

from collections.abc import Callable

from oslo_log import log

LOG = log.getLogger(__name__)


def stop_each(*steps: Callable[[], object]) -> None:
    """Do these steps one after the other, whatever some of them raise, which is logged."""
    for step in steps:
        problem = ""
        try:
            step()
        # The broker or the database may be gone in the middle of it.
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        # Outside of the handler, where oslo.log would add the error a second time.
        if problem:
            LOG.warning("Stopping goes on although a part of it failed: %s", problem)

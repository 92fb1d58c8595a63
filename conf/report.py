# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Sections of our own in the report that a daemon writes on SIGUSR2, see conf/process.py."""

from collections.abc import Callable, Mapping

from oslo_reports.guru_meditation_report import TextGuruMeditation
from oslo_reports.models.with_default_views import ModelWithDefaultViews


def add_section(title: str, facts: Callable[[], Mapping[str, object]]) -> None:
    """Let the report have a section with these facts, asked for in the handler of the signal.

    It interrupts whatever is going on, so they must be at hand: no locks, no I/O.
    """

    def section() -> ModelWithDefaultViews:
        return ModelWithDefaultViews(data=dict(facts()))

    TextGuruMeditation.register_section(title, section)

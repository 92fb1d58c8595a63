# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler's view of all hosts, kept fresh from the inventory and from what casts tell."""

from scheduler.host_view.view import HostView

__all__ = ["HostView"]

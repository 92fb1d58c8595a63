# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From what was decided to what is held in the database for it."""

from scheduler.claiming.claimer import Claimer
from scheduler.claiming.orders import Terms

__all__ = ["Claimer", "Terms"]

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Request filters look at a request as a whole, once and before the filters."""

from scheduler.filters import BaseHostFilter

REQUEST_FILTERS: tuple[type[BaseHostFilter], ...] = ()

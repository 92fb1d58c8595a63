# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decides on which host an instance runs."""

import sys

from scheduler.aliases import Aliases

if not any(isinstance(each, Aliases) for each in sys.meta_path):
    sys.meta_path.append(Aliases())

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of select_destinations from a caller to the answer, beside an echo of the same bodies."""

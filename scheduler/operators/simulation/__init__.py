# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Run the scheduler's own decisions over a trace of arrivals and departures, faster than time."""

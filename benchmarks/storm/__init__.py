# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Storms of requests on schedulers that are real processes, and what is broken meanwhile."""

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decide what nova-scheduler is asked, beside it, and compare the answers; nothing is claimed."""

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Clients of the scheduler, of the agents and of Nova's conductor."""

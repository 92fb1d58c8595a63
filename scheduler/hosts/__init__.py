# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The host table: all hosts in memory, one column per fact, and one host as plug-ins see it."""

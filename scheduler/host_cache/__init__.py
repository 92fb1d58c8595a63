# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The host cache: the hosts in memory, refreshed from the database and pushes."""

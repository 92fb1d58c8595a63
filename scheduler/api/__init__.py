# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is called from outside: the endpoints of the scheduler's RPC."""

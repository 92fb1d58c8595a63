# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One audit of the agent's nodes: look, recount, store what changed, publish it."""

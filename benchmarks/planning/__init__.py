# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How long plans of moves take and how good they are, beside bounds and an exact solver."""

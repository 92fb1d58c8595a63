# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How guests with NUMA cells fit on the cells of a host, and what they take from them."""

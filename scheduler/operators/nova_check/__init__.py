# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Check, without a write, whether a Nova cloud is ready for our scheduler in place of its own."""

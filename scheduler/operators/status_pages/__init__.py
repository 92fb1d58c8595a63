# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Pages about the fleet for a browser: made from the database, in a process of their own."""

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Read the databases of a Nova cloud, in which nothing is written, and its Placement."""

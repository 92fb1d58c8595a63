# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A whole cloud in one process: its clocks, its order and its faults are drawn from a seed."""

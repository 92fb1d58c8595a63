# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Questions about decisions: why, why not, how many more, how to empty a host."""

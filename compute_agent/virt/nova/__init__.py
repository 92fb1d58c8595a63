# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A driver that reports the hosts of a Nova cloud from Nova's databases."""

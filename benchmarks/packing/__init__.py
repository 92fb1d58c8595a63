# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How well fleets are filled, beside Nova's own loop over the same hosts and requests."""

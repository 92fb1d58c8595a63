# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How many instances a fleet admits that all run again after any failure domain has died."""

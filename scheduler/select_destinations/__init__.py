# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The loop of the product: read the host cache, decide, claim, answer; a lost claim starts over."""

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The plumbing of oslo.messaging: transports, servers, publishers, workarounds."""

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a Nova cloud says of itself in its databases, which are only read, and in Placement."""

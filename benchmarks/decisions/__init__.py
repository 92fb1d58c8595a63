# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a decision costs: ours, Nova's own loop, and bare numpy, on the same hosts."""

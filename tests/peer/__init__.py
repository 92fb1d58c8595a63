# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova as a caller in tests; what is here runs in its environment, not in ours."""

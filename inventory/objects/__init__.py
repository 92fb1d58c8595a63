# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the tables and the wire share: NUMA, PCI, groups, and the types of fields."""

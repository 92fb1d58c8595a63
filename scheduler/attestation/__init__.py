# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an attestation service says of nodes, for TrustedFilter."""

from scheduler.attestation.levels import Attestation, levels_for, load

__all__ = ["Attestation", "levels_for", "load"]

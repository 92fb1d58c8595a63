# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The agent of one hypervisor: what its host has, what is taken, whether it is alive."""

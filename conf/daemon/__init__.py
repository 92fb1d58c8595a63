# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How a daemon runs: start-up, signals, health, status page. No option is defined here."""

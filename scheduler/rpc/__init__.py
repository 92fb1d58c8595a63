# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The service's face to conductors: arguments, answers, failures and contexts on the wire."""

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What serves people who look at a scheduler: the command, the pages, plans, simulations, shadows.

The service imports nothing of this, but for the two places that start the processes of the pages
and of the shadow.
"""

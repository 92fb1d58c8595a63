# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plans of moves: which instances to move where, in which order, to reach a goal of an operator.

Nothing is moved here. Each move is one that the filters of schedulers allow when its turn comes.
"""

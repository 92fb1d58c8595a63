# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of AlignmentWeigher, which Nova does not have."""

from oslo_config import cfg

OPTS = [
    cfg.FloatOpt(
        "weight_multiplier",
        default=0.0,
        help="""
Weight of how well the free vCPUs, memory and disk of a host match the shape of the instance.

Positive prefers hosts with much left of what is needed most. It packs well where several resources
run short together, and badly where only one does. 0 disables it. The metadata key
alignment_weight_multiplier of an aggregate overrides it for the aggregate's hosts; the smallest
wins where several do.
""",
    )
]

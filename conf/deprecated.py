# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Names of options in earlier releases of Nova, which are still read."""

from oslo_config import cfg


def formerly(name: str) -> list[cfg.DeprecatedOpt]:
    """Return the former name of an option, up to Newton (14) without a group."""
    return [cfg.DeprecatedOpt(name, group="DEFAULT")]

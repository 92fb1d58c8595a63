# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How filters and weighers get their settings."""

from collections.abc import Mapping, Sequence
from typing import Any

# Where the values of a plug-in's settings are found: (attribute, group, option) each.
Options = Sequence[tuple[str, str, str]]


def take(plugin: object, options: Options, settings: Mapping[str, Any]) -> None:
    """Give a plug-in the values of its settings; raises TypeError for one that it does not have."""
    unknown = settings.keys() - {attribute for attribute, _, _ in options}
    if unknown:
        raise TypeError(f"{type(plugin).__name__} has no setting {', '.join(sorted(unknown))}")
    vars(plugin).update(settings)

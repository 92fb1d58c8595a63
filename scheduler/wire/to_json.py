# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Convert values to JSON for people and programs; nothing decodes them."""

import math
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from typing import Any

from scheduler.objects.flavor_and_image import ImageMetaProps


def json_value(value: Any) -> Any:
    """Return a value as JSON has it: dataclasses as objects, infinite numbers and NaN as null.

    Types that JSON has no equivalent of are converted to text.
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else None
        case list() | tuple():
            return [json_value(each) for each in value]
        case Mapping() | ImageMetaProps():
            return {str(key): json_value(each) for key, each in value.items()}
        case Set():
            return sorted((json_value(each) for each in value), key=str)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: json_value(getattr(value, each.name)) for each in fields(value)}
    item = getattr(value, "item", None)
    # A number of numpy.
    return json_value(item()) if callable(item) else str(value)

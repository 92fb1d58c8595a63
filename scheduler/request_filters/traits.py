# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The traits and resources that flavors and images ask of Placement, by the names of Nova."""

import re
from collections.abc import Iterator, Mapping

from scheduler.objects.request_spec import RequestSpec

REQUIRED = "required"
_NAME = re.compile("[A-Z0-9_]+")


def required(texts: Mapping[str, str], key: re.Pattern[str]) -> Iterator[str]:
    """Yield the traits that keys of this form name and values require."""
    for name, value in texts.items():
        found = key.fullmatch(name)
        if found and value == REQUIRED:
            yield found[1]


def of_image(spec: RequestSpec) -> list[str]:
    """Return the traits that the image requires.

    Of an instance that is there already, the list may be known as the text that was kept of it.
    """
    listed = spec.image.properties.traits_required if spec.image else None
    return _NAME.findall(listed) if isinstance(listed, str) else list(listed or ())

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What plug-ins written for Nova ask of any of its objects besides the fields."""


class FieldPresence:
    """``name in value`` and ``value.obj_attr_is_set(name)``, as on Nova's objects.

    Ours have no unset attributes: what was not sent holds its default, and None counts as unset.
    """

    __slots__ = ()

    def __contains__(self, name: str) -> bool:
        return getattr(self, name, None) is not None

    def obj_attr_is_set(self, name: str) -> bool:
        """Tell whether the field was given a value."""
        return name in self

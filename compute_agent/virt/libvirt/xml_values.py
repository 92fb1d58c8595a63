# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""XML as libvirt writes it, and numbers, amounts and sets of numbers in it.

A text that cannot be read so counts as absent, as does what is larger than any host will be.
"""

import re
from xml.etree import ElementTree

from compute_agent.virt.driver import DriverAnswerUnusable

KIB, MIB, PIB = 2**10, 2**20, 2**50
# More than libvirt lets a guest or a host have.
MAX_CPUS = 16384
LARGEST = 2**30
_UNITS = {"b": 1, "byte": 1, "bytes": 1} | {
    letter + ending: base**power
    for power, letter in enumerate("kmgtpe", start=1)
    for ending, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
_DIGITS = re.compile(r"\s*([0-9]{1,19})\s*")
_MEMBERS = re.compile(r"\s*(\^?)([0-9]{1,5})(?:-([0-9]{1,5}))?\s*")
# libvirt writes none; one may hold entities that grow beyond all bounds.
_DOCTYPE = re.compile(r"\ufeff?(?>\s+|<\?.*?\?>|<!--.*?-->)*+<!DOCTYPE", re.DOTALL)


def document(xml: str, question: str) -> ElementTree.Element:
    """Return the root of the answer to a question; raises DriverAnswerUnusable."""
    if _DOCTYPE.match(xml):
        raise DriverAnswerUnusable(
            question, "the XML has a document type, which libvirt never writes"
        )
    try:
        return ElementTree.fromstring(xml)
    except (ElementTree.ParseError, UnicodeError) as error:
        raise DriverAnswerUnusable(question, str(error)) from error


def number(text: str | None, at_most: int = LARGEST) -> int | None:
    """Return a whole number that is not negative."""
    digits = _DIGITS.fullmatch(text or "")
    value = int(digits[1]) if digits else at_most + 1
    return value if value <= at_most else None


def size(text: str | None, unit: str | None) -> int:
    """Return an amount of memory in bytes, 0 for none. libvirt takes KiB where no unit is named."""
    factor = _UNITS.get((unit or "KiB").lower(), 0)
    found = (number(text, at_most=PIB) or 0) * factor
    return found if found <= PIB else 0


def mebibytes(found: int) -> int:
    """Return an amount in MiB: a part of one is a whole one."""
    return -(-found // MIB)


def members(text: str | None) -> set[int]:
    """Return the numbers of CPUs or cells in a text such as 0-3,^2,8."""
    found: set[int] = set()
    for part in (text or "").split(","):
        if match := _MEMBERS.fullmatch(part):
            without, first, last = match.groups()
            numbers = range(int(first), min(int(last or first), MAX_CPUS) + 1)
            found = found.difference(numbers) if without else found.union(numbers)
    return found

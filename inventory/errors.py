# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Why a question or an operation of an operator is refused, and words for the message.

OperationRefused
+-- NotFound        no host, aggregate, server group or other thing has the given name
+-- Malformed       an argument that is invalid or ambiguous; argument names it
+-- InUse           the operation conflicts with existing objects: still needed, or in the way
+-- NotReported     the agent does not report the requested fact
+-- NovasOwn        it is to be changed in Nova, whose state is mirrored here
"""

import unicodedata
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches

# Characters of a name or a short text, and names in a line.
_LONGEST = 255
_SHOWN = 3
# Unknown names in a line, and those of them that are compared with all known ones.
_UNKNOWN = 20
_COMPARED = 5


class OperationRefused(Exception):
    """Nothing was done; the text says why and what to do, in one line."""


class NotFound(OperationRefused):
    """The requested object does not exist."""


class Malformed(OperationRefused):
    """An argument is invalid."""

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"{argument}: {problem}")
        self.argument = argument
        self.problem = problem


class InUse(OperationRefused):
    """The operation conflicts with existing objects."""


class NotReported(OperationRefused):
    """The agent does not report the requested fact."""


class NovasOwn(OperationRefused):
    """It is to be changed in Nova, whose state is mirrored here."""


def checked_text(argument: str, text: str, may_be_empty: bool = False) -> str:
    """Return a text without blanks around it; raises Malformed naming the argument."""
    found = text.strip()
    if not found and not may_be_empty:
        raise Malformed(argument, "is empty")
    if len(found) > _LONGEST:
        raise Malformed(argument, f"has {len(found)} characters, at most {_LONGEST} are allowed")
    if not found.isprintable():
        raise Malformed(argument, "has characters that cannot be printed on one line")
    return found


def collated(name: str) -> str:
    """Return a name without letter case and accents: two that are equal then, people mix up."""
    parts = unicodedata.normalize("NFKD", name)
    return "".join(each for each in parts if not unicodedata.combining(each)).casefold()


def taken(kind: str, name: str, other: str) -> InUse:
    """Return the error for a name that is that of another object, or not distinguished from it."""
    alike = "" if name == other else f", which counts as the same name as {name!r}"
    return InUse(f"there is {kind} {other!r} already{alike}; see '{kind.partition(' ')[2]} list'")


def some(texts: Iterable[str]) -> str:
    """Return the first names and the number of the others, for one line."""
    known = sorted(texts)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return ", ".join(known[:_SHOWN]) + more


def counted(number: int, noun: str, others: str = "", thousands: str = "") -> str:
    """Return a number with its noun, or with others for any number but 1: 1 host, 2 hosts.

    thousands separates these, if given.
    """
    return f"{number:{thousands}} {noun if number == 1 else others or f'{noun}s'}"


def nearest(name: str, known: Iterable[str], otherwise: str, likeness: float = 0.6) -> str:
    """Return a hint for a name that was not found: similar names, or the text in otherwise."""
    found = similar(name, known, likeness)
    return f"did you mean {alternatives(found)}?" if found else otherwise


def alternatives(names: Iterable[str]) -> str:
    """Return names for one line: a, b or c."""
    return joined(names, "or")


def joined(names: Iterable[str], conjunction: str = "and") -> str:
    """Return names for one line, with a conjunction before the last one: a, b and c."""
    *others, last = [*names] or [""]
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def nearest_each(
    noun: str, unknown: Sequence[str], known: Iterable[str], otherwise: str
) -> tuple[str, str]:
    """Return names of a noun that were not found, for one line, and a hint as of nearest().

    Of several names each of the first ones is followed by those similar to it.
    """
    if len(unknown) == 1:
        return f"a {noun} {unknown[0]!r}", nearest(unknown[0], known, otherwise)
    known = list(known)
    texts = [repr(name) for name in unknown[:_UNKNOWN]]
    for number, name in enumerate(unknown[:_COMPARED]):
        if found := similar(name, known):
            texts[number] += f" (did you mean {alternatives(found)}?)"
    more = f" and {len(unknown) - _UNKNOWN} more" if len(unknown) > _UNKNOWN else ""
    return f"{len(unknown)} {noun}s: {', '.join(texts)}{more}", otherwise


def similar(name: str, known: Iterable[str], likeness: float = 0.6) -> list[str]:
    """Return the names most like another one, at most three, the nearest first.

    likeness is 1 for equal names and 0 for those without a common letter.
    """
    word, folded = name.casefold(), {each.casefold(): each for each in known}

    def rank(other: str) -> tuple[float, int, str]:
        matcher = SequenceMatcher(None, other, word)
        first = matcher.get_matching_blocks()[0]
        # Of equally similar names those that begin the same, as many names end with a number.
        return -matcher.ratio(), -first.size if first.a == first.b == 0 else 0, other

    found = get_close_matches(word, sorted(folded), max(1, len(folded)), likeness)
    return [folded[each] for each in sorted(found, key=rank)[:_SHOWN]]

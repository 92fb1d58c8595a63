# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What all benchmarks have found as tables of the documentation."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchmarks import check
from benchmarks.document import Document, Part
from benchmarks.figures import (
    BOUND,
    ECHO,
    EXACT,
    FLOOR,
    LIBVIRT,
    NOVA,
    OURS,
    Case,
    Figure,
    Ratio,
    in_word,
    in_words,
    plain,
)

WHO = {
    OURS: "ours",
    NOVA: "Nova",
    FLOOR: "floor",
    ECHO: "echo",
    LIBVIRT: "libvirt",
    EXACT: "CP-SAT",
    BOUND: "bound",
}
Kind = tuple[str, str]
# Columns of a table for figures that are no times.
ABREAST = 6
# Of these it is said how many times as many the others take or do.
TAKEN = ("us", "ms", "s", "/s")
HEADER = """\
.. SPDX-FileCopyrightText: 2026 The Berthmaster authors
.. SPDX-License-Identifier: Apache-2.0
.. Written by python -m benchmarks: changes will be lost.
"""


def report(found: Document) -> str:
    """Return the tables of a run, as a file that a page includes."""
    blocks = [HEADER, *_about(found), *_verdicts(found)]
    for name, part in found.parts.items():
        blocks += _part(name, part)
    return "\n".join(blocks)


def _about(found: Document) -> Iterator[str]:
    machine = found.machine
    kind = "A quick look" if found.quick else "Measured"
    yield (
        f"{kind} on {found.when[:10]}: {machine['cpu']}, {machine['cores']} processors,"
        f" {machine['memory_gib']} GiB, {machine['kernel']}, {machine['distribution']}.\n"
    )
    versions = [f"{name} {each or 'absent'}" for name, each in found.versions.items()]
    yield ", ".join(versions) + ".\n"


def _verdicts(found: Document) -> Iterator[str]:
    rows = check.rows(found.figures)
    yield _titled("The figures to reach")
    yield table(check.HEADS, [each.cells for each in rows])
    yield from (f"- {each.about}: {each.note}" for each in rows if each.note)
    yield ""


def _part(name: str, part: Part) -> Iterator[str]:
    yield _titled(name)
    yield f"{part.seconds:.0f} s, revision {part.our}, {part.when}.\n"
    if part.failed:
        yield f"It has failed: ``{part.failed}``\n"
    kinds: dict[Kind, list[Figure]] = {}
    for each in part.figures:
        kinds.setdefault((each.what, each.unit), []).append(each)
    for kind, some in kinds.items():
        if kind[1] in TAKEN:
            cases = Cases([each.case for each in some])
            yield table(*_compared(some, cases), _named(kind) + cases.usually)
    yield from _side_by_side({kind: some for kind, some in kinds.items() if kind[1] not in TAKEN})


class Cases:
    """Says of cases what they differ in, and not again what most of them have in common."""

    def __init__(self, cases: Sequence[Case]) -> None:
        names = dict.fromkeys(name for each in cases for name in each)
        values = {name: Counter(each.get(name) for each in cases) for name in names}
        self.columns = [
            name for name in names if len(values[name]) > 1 and None not in values[name]
        ]
        usual = {name: values[name].most_common(1)[0][0] for name in names}
        self._usual = {name: usual[name] for name in names if name not in self.columns}
        self.are_special = any(map(self._special, cases))

    @property
    def usually(self) -> str:
        """What goes for all cases of which nothing else is said."""
        said = {name: each for name, each in self._usual.items() if each is not None}
        return f" ({in_words(said)})" if said else ""

    @property
    def heads(self) -> list[str]:
        """The heads of what cells returns."""
        return [
            *(each.replace("_", " ") for each in self.columns),
            *(["but"] if self.are_special else []),
        ]

    def cells(self, case: Case) -> list[str]:
        """Return what there is to say of a case."""
        found = [in_word(case[name]) for name in self.columns]
        return found + ([self._special(case)] if self.are_special else [])

    def _special(self, case: Case) -> str:
        return in_words(
            {
                name: each
                for name, each in case.items()
                if name in self._usual and each != self._usual[name]
            }
        )


def _compared(figures: Sequence[Figure], cases: Cases) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of figures of one thing: a row for each case."""
    who = [each for each in WHO if each in {figure.who for figure in figures}]
    rivals = [each for each in who if each != OURS and OURS in who]
    heads = [*cases.heads, *(f"{WHO[each]} (middle half)" for each in who)]
    heads += [f"{WHO[each]} / ours" for each in rivals]
    by_case: dict[str, dict[str, Figure]] = {}
    for each in figures:
        by_case.setdefault(repr(sorted(each.case.items())), {})[each.who] = each
    rows = []
    for by in by_case.values():
        row = cases.cells(next(iter(by.values())).case)
        row += [_measured(by[each]) if each in by else "" for each in who]
        rows.append(row + [_ratio(by.get(each), by.get(OURS)) for each in rivals])
    return heads, rows


def _side_by_side(kinds: Mapping[Kind, Sequence[Figure]]) -> Iterator[str]:
    """Yield tables of medians that have a row for each case and who, a column for each thing."""
    alike: dict[frozenset[str], list[Kind]] = {}
    for kind, figures in kinds.items():
        alike.setdefault(frozenset(map(_done, figures)), []).append(kind)
    for each in alike.values():
        for some in (each[at : at + ABREAST] for at in range(0, len(each), ABREAST)):
            cases = Cases([figure.case for figure in kinds[some[0]]])
            found = {(kind, _done(one)): one for kind in some for one in kinds[kind]}
            rows = [
                [*cases.cells(one.case), WHO[one.who]]
                + [plain(found[kind, _done(one)].median) for kind in some]
                for one in kinds[some[0]]
            ]
            yield table([*cases.heads, "who", *map(_named, some)], rows, cases.usually.strip())


def _done(figure: Figure) -> str:
    """Return what tells who did something in which case."""
    return f"{figure.who} {sorted(figure.case.items())}"


def _named(kind: Kind) -> str:
    return ", ".join(filter(None, kind))


def _measured(figure: Figure) -> str:
    if len(figure.turns) == 1:
        return plain(figure.median)
    low, high = map(plain, figure.quartiles)
    return f"{plain(figure.median)} ({low} to {high})"


def _ratio(other: Figure | None, ours: Figure | None) -> str:
    if other is None or ours is None or not ours.median:
        return ""
    return plain(Ratio.of(other, ours).median)


def _titled(title: str) -> str:
    return f"{title}\n{'-' * len(title)}\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> str:
    """Return a table as reStructuredText has it; cells are words and numbers."""
    lines = [f".. list-table:: {title}".rstrip(), "   :header-rows: 1", ""]
    for row in (heads, *rows):
        for number, cell in enumerate(row):
            lines.append(f"   {' ' if number else '*'} - {cell}".rstrip())
    return "\n".join([*lines, ""])

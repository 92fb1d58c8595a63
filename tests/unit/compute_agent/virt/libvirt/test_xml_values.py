# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers, amounts and sets as libvirt writes them; anything else is nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent.virt.libvirt import xml_values
from compute_agent.virt.libvirt.xml_values import MAX_CPUS, PIB, members, number, size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        (" 12\n", 12),
        ("007", 7),
        (str(2**30), 2**30),
        (str(2**30 + 1), None),
        ("9" * 5000, None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("1_0", None),
        ("0x10", None),
        ("٣", None),
        ("", None),
        (None, None),
    ],
)
def test_numbers(text: str | None, expected: int | None) -> None:
    assert number(text) == expected


def test_a_number_has_a_bound() -> None:
    assert (number("5", at_most=5), number("6", at_most=5)) == (5, None)


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("b", 1),
        ("byte", 1),
        ("bytes", 1),
        ("KB", 10**3),
        ("k", 2**10),
        ("KiB", 2**10),
        ("kib", 2**10),
        ("", 2**10),
        (None, 2**10),
        ("MB", 10**6),
        ("M", 2**20),
        ("MiB", 2**20),
        ("GB", 10**9),
        ("G", 2**30),
        ("GiB", 2**30),
        ("TB", 10**12),
        ("T", 2**40),
        ("TiB", 2**40),
        ("P", 2**50),
        ("furlong", 0),
        ("KiBi", 0),
    ],
)
def test_units(unit: str | None, factor: int) -> None:
    assert size("1", unit) == factor


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        (str(PIB), "b", PIB),
        (str(PIB + 1), "b", 0),
        ("1025", "TiB", 0),
        ("1", "EiB", 0),
        ("-4", "KiB", 0),
        (None, None, 0),
    ],
)
def test_amounts_that_no_host_has_count_as_nothing(
    text: str | None, unit: str | None, expected: int
) -> None:
    assert size(text, unit) == expected


@pytest.mark.parametrize(("amount", "expected"), [(0, 0), (1, 1), (2**20, 1), (2**20 + 1, 2)])
def test_a_part_of_a_mebibyte_is_a_whole_one(amount: int, expected: int) -> None:
    assert xml_values.mebibytes(amount) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", {0}),
        ("0-3", {0, 1, 2, 3}),
        ("0-3,^2,8", {0, 1, 3, 8}),
        ("1-4,^2-3", {1, 4}),
        ("^2,1-3", {1, 2, 3}),
        (" 1 , 3 ", {1, 3}),
        ("3-1", set()),
        ("x,2", {2}),
        ("-1", set()),
        (f"{MAX_CPUS - 1}-99999", {MAX_CPUS - 1, MAX_CPUS}),
        ("1-9999999", set()),
        ("", set()),
        (None, set()),
    ],
)
def test_sets(text: str | None, expected: set[int]) -> None:
    assert members(text) == expected


@given(st.sets(st.integers(0, 300)))
def test_what_is_written_is_read(numbers: set[int]) -> None:
    assert members(",".join(map(str, sorted(numbers)))) == numbers


@given(st.text(alphabet="0123456789-^, ", max_size=30))
def test_no_text_is_too_odd(text: str) -> None:
    assert all(0 <= each <= MAX_CPUS for each in members(text))
    assert number(text) is None or int(text) == number(text)

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The values that [upgrade_levels] scheduler has in Nova mean the same here."""

import pytest

from conf import upgrade_levels
from conf.loading import ConfigError


@pytest.mark.parametrize(
    ("written", "cap"),
    [
        ("", None),
        ("scheduler =", None),
        ("scheduler = auto", None),
        ("scheduler = 4.3", (4, 3)),
        ("scheduler = 4.10", (4, 10)),
        ("scheduler = grizzly", (2, 6)),
        ("scheduler = havana", (2, 9)),
        ("scheduler = icehouse", (3, 0)),
        ("scheduler = juno", (3, 0)),
        ("scheduler = kilo", (4, 2)),
        ("scheduler = liberty", (4, 2)),
        ("scheduler = mitaka", (4, 3)),
        ("scheduler = newton", (4, 3)),
        ("scheduler = ocata", (4, 3)),
        ("scheduler = pike", (4, 4)),
    ],
)
def test_what_nova_s_client_takes_and_auto(loaded, written, cap):
    assert upgrade_levels.cap(loaded(f"[upgrade_levels]\n{written}\n")) == cap


@pytest.mark.parametrize("value", ["queens", "Pike", "4", "4.x", "v4.3", "4.3.1", "-4.3"])
def test_anything_else_is_refused_with_the_name_of_the_option(loaded, value):
    with pytest.raises(
        ConfigError, match=r"option \[upgrade_levels\] scheduler = .* in "
    ) as caught:
        loaded(f"[upgrade_levels]\nscheduler = {value}\n")
    assert "must be a version such as 4.4, auto or one of grizzly," in str(caught.value)


def test_other_levels_of_a_nova_conf_are_left_alone(loaded):
    conf = loaded("[upgrade_levels]\ncompute = auto\nconductor = 3.0\nscheduler = newton\n")
    assert upgrade_levels.cap(conf) == (4, 3)

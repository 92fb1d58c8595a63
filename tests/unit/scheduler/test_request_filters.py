# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What every request filter keeps, whatever its rule is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.objects.aggregate import Aggregate
from scheduler.request_filters import REQUEST_FILTERS
from tests.builders import a_request, an_image
from tests.databases import a_conf
from tests.hosts import a_host, a_table

TEXTS = st.sampled_from(["", "required", "p1", "p1,p2", "z1", "z1, nova", ","])
KEYS = ["availability_zone", "filter_tenant_id", "filter_tenant_id2", "trait:X", "trait:", "x"]
AGGREGATES = st.none() | st.lists(
    st.builds(
        Aggregate,
        name=st.none() | st.just("a"),
        metadata=st.dictionaries(st.sampled_from(KEYS), TEXTS),
    ),
    max_size=3,
)
REQUESTS = st.builds(
    a_request,
    project_id=st.none() | TEXTS,
    availability_zone=st.none() | TEXTS,
    extra_specs=st.dictionaries(st.sampled_from(["trait:X", "trait1:X", "trait", "::"]), TEXTS),
    image=st.none() | st.builds(an_image, traits_required=st.none() | st.lists(st.just("X"))),
    force_hosts=st.none() | st.just(["h0"]),
)


@pytest.mark.parametrize("plugin", REQUEST_FILTERS)
def test_it_says_what_it_keeps_and_asks_for_settings_that_there_are(plugin):
    conf = a_conf()
    assert plugin().name == plugin.__name__
    assert plugin.__doc__.startswith("Keep ")
    for attribute, group, option in plugin.options:
        value = conf[option] if group == "DEFAULT" else conf[group][option]
        assert getattr(plugin, attribute) == value


@pytest.mark.parametrize("plugin", REQUEST_FILTERS)
@given(st.lists(AGGREGATES, min_size=1, max_size=5), REQUESTS, st.booleans())
def test_hosts_alike_are_judged_alike_and_refused_with_a_reason(plugin, each, spec, strict):
    switches = {"enabled": True, "required": strict, "isolates": strict}
    rule = plugin(**{name: value for name, value in switches.items() if hasattr(plugin, name)})
    table = a_table(
        *(a_host(f"h{n}", aggregates=found) for n, found in enumerate([*each, each[0]]))
    )
    mask = rule.mask(table, spec)
    assert (mask.shape, mask.dtype) == ((table.size,), np.bool_)
    assert mask[0] == mask[-1]
    assert not table.warnings
    for row in np.flatnonzero(~mask):
        reason = rule.reason(a_host(aggregates=table.get(row, "aggregates")), spec)
        assert reason
        assert "\n" not in reason

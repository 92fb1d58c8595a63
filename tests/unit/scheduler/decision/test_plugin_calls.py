# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.plugin_calls: plug-ins that raise or return nonsense."""

import numpy as np
import pytest

from scheduler.analysis.explain import explain
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters import BaseHostFilter
from scheduler.weighers import BaseHostWeigher
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request
from tests.hosts import hosts_with

THREE = {"h1": 4096, "h2": 8192, "h3": 2048}
UUIDS = ["u1", "u2", "u3"]
SHORT = "ValueError: {}() did not return one element for each of 3 rows"


def _raising(error):
    def method(*_):
        raise error

    return method


def _returning(value):
    return lambda *_: value


def _a_plugin(base, name, **methods):
    return type(name, (base,), methods)()


def _filter(**methods):
    return _a_plugin(BaseHostFilter, "Broken", **methods)


def _weigher(**methods):
    weigh = _returning(np.array([9.0, 0.0, 0.0]))
    return _a_plugin(BaseHostWeigher, "Broken", **({"weigh": weigh} | methods))


def _decided(plan, uuids=("u",)):
    return decide(hosts_with("free_ram_mb", THREE), Request(a_request(), uuids), plan)


@pytest.mark.parametrize(
    ("methods", "problem"),
    [
        ({"mask": _raising(KeyError("gpu"))}, "KeyError: 'gpu'"),
        ({"mask": _raising(ValueError("no\n\tGPU"))}, "ValueError: no GPU"),
        ({"mask": _raising(ValueError("x" * 1000))}, "ValueError: " + "x" * 288),
        ({"mask": _returning(None)}, SHORT.format("mask")),
        ({"mask": _returning(np.ones(2, np.bool_))}, SHORT.format("mask")),
    ],
)
@pytest.mark.parametrize("row_local", [False, True])
def test_a_filter_that_fails_refuses_all_hosts(methods, problem, row_local):
    methods = {**methods, "row_local": row_local, "reads": ("free_ram_mb",)}
    decision = _decided(Plan([_filter(**methods)]))
    assert not decision.placements
    assert [str(step) for step in decision.shortage.steps] == ["Broken 3->0"]
    assert decision.warnings == (f"Broken refuses all hosts since it failed: {problem}",)


@pytest.mark.parametrize(
    ("methods", "problem"),
    [
        ({"weigh": _raising(KeyError("gpu"))}, "KeyError: 'gpu'"),
        ({"weigh": _returning(None)}, SHORT.format("weigh")),
        ({"weigh": _returning(["a", "b", "c"])}, "ValueError: could not convert string to float: "),
        ({"weight_multiplier": _raising(KeyError("gpu"))}, "KeyError: 'gpu'"),
        ({"weight_multiplier": _returning(None)}, "ValueError: a multiplier is not a finite"),
        (
            {"weight_multiplier": _returning(float("nan"))},
            "ValueError: a multiplier is not a finite number",
        ),
        ({"multipliers": _returning(np.ones(2))}, SHORT.format("multipliers")),
        ({"multipliers": _returning(float("inf"))}, "ValueError: a multiplier is not a finite"),
    ],
)
@pytest.mark.parametrize("row_local", [False, True])
def test_a_weigher_that_fails_is_left_out(methods, problem, row_local):
    methods = {**methods, "row_local": row_local, "reads": ("free_ram_mb",)}
    decision = _decided(Plan((), [_weigher(**methods), RAMWeigher()]), UUIDS)
    # It would prefer h1.
    assert decision.placements[0].chosen.host == "h2"
    assert [*decision.placements[0].weighed[0].shares] == ["RAMWeigher"]
    assert len(decision.placements) == 3
    (warning,) = decision.warnings
    assert warning.startswith(f"Broken is left out since it failed: {problem}")


@pytest.mark.parametrize("method", ["applies", "columns_read", "run_filter_for_index"])
def test_a_plug_in_that_cannot_say_how_it_is_to_be_asked_is_asked(method):
    broken = {method: _raising(KeyError("gpu")), "row_local": True}
    rule = _filter(mask=_returning(np.array([True, False, False])), **broken)
    decision = _decided(Plan([rule], [_weigher(**broken)]), UUIDS)
    assert {each.chosen.host for each in decision.placements} == {"h1"}
    assert decision.warnings == ()


@pytest.mark.parametrize("reads", [("free_ram",), "free_ram_mb", 7])
def test_columns_that_do_not_exist_fail_no_request(reads):
    rule = _filter(mask=_returning(np.array([True, False, False])), row_local=True, reads=reads)
    assert {each.chosen.host for each in _decided(Plan([rule]), UUIDS).placements} == {"h1"}


class Later(BaseHostWeigher):
    """A weigher that fails for the hosts that have taken an instance."""

    reads = ("free_ram_mb",)
    row_local = True

    def weigh(self, hosts, spec):
        if hosts.size != 3:
            raise KeyError("gpu")
        return np.array([9.0, 0.0, 0.0])


def test_a_weigher_that_fails_about_some_hosts_is_asked_about_all_of_them():
    decision = _decided(Plan((), [Later()]), UUIDS)
    assert [each.chosen.host for each in decision.placements] == ["h1", "h1", "h1"]


def test_a_filter_that_fails_is_named_where_a_decision_is_explained():
    hosts = hosts_with("free_ram_mb", THREE)
    driver = FilterScheduler(Plan([_filter(mask=_raising(KeyError("gpu")))]))
    explanation = explain(hosts, Request(a_request(), ["u"]), driver, 0)
    assert explanation.reasons == {"Broken": 3}

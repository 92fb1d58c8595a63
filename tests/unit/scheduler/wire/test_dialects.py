# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Any request, said as Newton, as 2026.2 or as any release between, is the same request to us."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_messaging import ExpectedException

from scheduler.api.scheduler_endpoint import SchedulerEndpoint
from scheduler.objects.request_spec import RequestSpec
from scheduler.wire.arguments import SelectArguments, decode_select_arguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from scheduler.wire.image_properties import KINDS
from tests.unit.scheduler.wire.contexts import callers, in_newest, in_newton
from tests.unit.scheduler.wire.dialects import (
    GLANCE_NAMES,
    as_dicts,
    as_flattened_dicts,
    as_json,
    as_object,
)
from tests.unit.scheduler.wire.dressing import dressed
from tests.unit.scheduler.wire.expressible import (
    as_nova_holds_it,
    in_dicts_of,
    in_flattened_dicts_of,
    in_no_order,
    in_objects_of,
    of_version,
)
from tests.unit.scheduler.wire.recorded import MINIMAL
from tests.unit.scheduler.wire.releases import (
    NEWEST,
    NEWTON,
    PROPERTIES,
    RELEASES,
    VERSIONS,
    numbers,
)
from tests.unit.scheduler.wire.strategies import all_properties, requests

_UUIDS = st.lists(st.uuids().map(str), min_size=1, max_size=3, unique=True)
# The order of sets, the nulls left out and so on; one number shrinks better than all the choices.
chances = st.integers(0, 2**32).map(Random)
FORMER = {*GLANCE_NAMES, "hw_scsi_model"}
former_names = st.sets(st.sampled_from(sorted(FORMER)))


@st.composite
def asked_for(draw: st.DrawFn) -> SelectArguments:
    """Return a request for some instances, the first of which the spec names."""
    uuids = draw(_UUIDS)
    spec = as_nova_holds_it(draw(requests))
    hints = dict(spec.scheduler_hints)
    group = spec.instance_group
    if group is not None and draw(st.booleans()):
        hints["group"] = [draw(_UUIDS)[0]]
        group = replace(group, uuid=hints["group"][0])
    spec = replace(
        spec,
        instance_uuid=uuids[0],
        num_instances=len(uuids),
        scheduler_hints=hints,
        instance_group=group,
    )
    return SelectArguments(spec, list(uuids), draw(st.booleans()), draw(st.booleans()))


def spec_version(release: str) -> tuple[int, ...]:
    return numbers(VERSIONS["RequestSpec"][release])


def with_spec(asked: SelectArguments, rpc: str, release: str) -> dict:
    """Return the arguments of 4.3 and later."""
    sent = {"spec_obj": as_object(asked.spec, release)}
    if rpc >= "4.4":
        sent["instance_uuids"] = asked.instance_uuids
    if rpc >= "4.5":
        sent["return_objects"] = asked.return_objects
        sent["return_alternates"] = asked.return_alternates
    return sent


def said_by_all(spec: RequestSpec) -> RequestSpec:
    """Return what each dialect of Newton and of the newest release can say."""
    return in_no_order(in_flattened_dicts_of(in_objects_of(spec, NEWTON), NEWTON))


def test_the_tables_name_the_same_properties():
    assert KINDS.keys() == PROPERTIES


@pytest.mark.parametrize("rpc", ["4.3", "4.4", "4.5"])
@given(asked=asked_for(), chance=chances)
def test_the_newest_release_at_each_version(rpc, asked, chance):
    read = decode_select_arguments(dressed(with_spec(asked, rpc, NEWEST), chance))
    assert read == replace(of_version(asked, rpc), spec_version=spec_version(NEWEST))


@given(asked=asked_for(), chance=chances)
def test_newton_and_the_newest_release(asked, chance):
    asked = replace(asked, spec=in_objects_of(asked.spec, NEWTON))
    old = decode_select_arguments(dressed(with_spec(asked, "4.3", NEWTON), chance))
    new = decode_select_arguments(dressed(with_spec(asked, "4.3", NEWEST), chance))
    assert (old.spec_version, new.spec_version) == ((1, 6), (1, 15))
    assert replace(old, spec_version=None) == replace(new, spec_version=None)
    assert old.spec == asked.spec


@given(asked=asked_for(), release=st.sampled_from(RELEASES), chance=chances)
def test_every_release(asked, release, chance):
    asked = replace(asked, spec=in_objects_of(asked.spec, release))
    read = decode_select_arguments(dressed(with_spec(asked, "4.3", release), chance))
    assert read == replace(of_version(asked, "4.3"), spec_version=spec_version(release))


@given(asked=asked_for(), release=st.sampled_from(RELEASES), chance=chances)
def test_dictionaries_that_capped_clients_derive(asked, release, chance):
    sent = dressed(as_dicts(asked.spec, release), chance)
    expected = replace(asked, spec=in_no_order(in_dicts_of(asked.spec, release)))
    read = decode_select_arguments(sent)
    assert replace(read, spec=in_no_order(read.spec)) == of_version(expected, "4.0")


@given(asked=asked_for(), release=st.sampled_from(RELEASES), former=former_names, chance=chances)
def test_dictionaries_that_conductors_build(asked, release, former, chance):
    sent = dressed(as_flattened_dicts(asked.spec, release, former), chance)
    expected = replace(asked, spec=in_no_order(in_flattened_dicts_of(asked.spec, release)))
    read = decode_select_arguments(sent)
    assert replace(read, spec=in_no_order(read.spec)) == of_version(expected, "4.0")


@pytest.mark.parametrize("former", [(), FORMER])
@given(properties=all_properties)
def test_every_image_property_by_its_old_and_its_new_name(former, properties):
    spec = replace(MINIMAL, image=replace(MINIMAL.image, properties=properties))
    sent = as_json(as_flattened_dicts(spec, NEWEST, former))
    expected = in_flattened_dicts_of(spec, NEWEST)
    assert decode_select_arguments(sent).spec.image == expected.image


@given(asked=asked_for(), chance=chances)
def test_what_dictionaries_of_newton_say_is_said_by_all_dialects(asked, chance):
    spec = said_by_all(asked.spec)
    if spec.instance_group is not None:
        # Objects name the group themselves.
        uuid = asked.instance_uuids[0]
        spec = replace(
            spec,
            scheduler_hints=spec.scheduler_hints | {"group": [uuid]},
            instance_group=replace(spec.instance_group, uuid=uuid),
        )
    messages = [
        with_spec(replace(asked, spec=spec), "4.3", NEWEST),
        with_spec(replace(asked, spec=spec), "4.3", NEWTON),
        as_dicts(spec, NEWEST),
        as_dicts(spec, NEWTON),
        as_flattened_dicts(spec, NEWEST),
        as_flattened_dicts(spec, NEWTON),
    ]
    for message in messages:
        assert in_no_order(decode_select_arguments(dressed(message, chance)).spec) == spec


@given(caller=callers, left_out=st.sets(st.sampled_from(["user_id", "user"]), max_size=1))
def test_both_contexts_name_the_same_caller(caller, left_out):
    for context in (in_newton(caller), in_newest(caller)):
        known = {name: each for name, each in context.items() if name not in left_out}
        assert RequestContext.from_dict(known | {"trace_info": {"hmac_key": "k"}}) == caller


@pytest.mark.parametrize("name", ["project_id", "tenant"])
@given(caller=callers)
def test_one_name_of_the_project_is_enough(name, caller):
    others = {"project_id", "tenant"} - {name}
    context = {key: each for key, each in in_newton(caller).items() if key not in others}
    assert RequestContext.from_dict(context) == caller


class Remembering:
    """A selector that finds nothing, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[RequestSpec, list[str | None], RequestContext]] = []

    def select(self, asked, caller, _deadline):
        self.asked.append((in_no_order(asked.spec), asked.instance_uuids, caller))
        raise NoValidHost("Nothing here.")

    def send(self, *_notification):
        """Take a notification."""


@given(asked=asked_for(), caller=callers, chance=chances)
def test_context_and_arguments_together(asked, caller, chance):
    spec = said_by_all(asked.spec)
    spec = replace(spec, user_id=caller.user_id, project_id=caller.project_id)
    asked = replace(asked, spec=spec)
    remembering = Remembering()
    endpoint = SchedulerEndpoint(remembering, remembering)
    for context, arguments in (
        (in_newest(caller), with_spec(asked, "4.3", NEWEST)),
        (in_newest(caller), as_dicts(spec, NEWEST)),
        # Only the context names the user.
        (in_newton(caller), with_spec(asked, "4.3", NEWTON)),
        (in_newton(caller), as_dicts(spec, NEWTON)),
        (in_newton(caller), as_flattened_dicts(spec, NEWTON)),
    ):
        with pytest.raises(ExpectedException):
            endpoint.select_destinations(context, **dressed(arguments, chance))
    first, *others = remembering.asked
    assert first[2] == caller
    assert [each for each in others if each != first] == []

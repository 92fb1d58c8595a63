# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The option [pci] device_spec is read as operators know it, or refused in one line."""

import json
import re
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent import device_spec
from compute_agent.audit.tracker import ResourceTracker
from compute_agent.device_spec import DeviceSpec, DeviceSpecError
from compute_agent.virt.driver import PciDevice
from compute_agent.virt.fake import FakeDriver
from inventory.engine import Database
from tests.fixtures import agent

CARD = PciDevice("0000:0a:00.1", "8086", "10fb", "type-PF", interface="ens1f1")
VIRTUAL = PciDevice(
    "0000:0a:10.3", "8086", "10ed", "type-VF", parent="0000:0a:00.1", interface="ens1f1v1"
)
GPU = PciDevice("0001:82:1f.7", "10de", "1db6")
DEVICES = {"card": CARD, "virtual": VIRTUAL, "gpu": GPU}


def the_spec(**keys: Any) -> DeviceSpec:
    (spec,) = device_spec.parse([json.dumps(keys)])
    return spec


def fitting(**keys: Any) -> set[str]:
    """Return the names of the devices that a spec fits."""
    by_address = {device.address: device for device in DEVICES.values()}
    spec = the_spec(**keys)
    return {
        name
        for name, device in DEVICES.items()
        if spec.fits(device, by_address.get(device.parent or ""))
    }


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, {"card", "virtual", "gpu"}),
        ({"vendor_id": "*", "product_id": "*"}, {"card", "virtual", "gpu"}),
        ({"vendor_id": "8086"}, {"card", "virtual"}),
        ({"vendor_id": " 0x8086 "}, {"card", "virtual"}),
        ({"product_id": "10FB"}, {"card"}),
        ({"product_id": "+10FB"}, {"card"}),
        ({"product_id": "000010fb"}, {"card"}),
        # What is empty is not there, and what only Placement reads may be anything.
        ({"address": "", "devname": "ens1f1"}, {"card", "virtual"}),
        ({"address": None, "devname": None, "traits": 5}, {"card", "virtual", "gpu"}),
        ({"address": "0x82:+1f."}, {"gpu"}),
        ({"vendor_id": "10de", "product_id": "10fb"}, set()),
        ({"vendor_id": "86"}, set()),
        # Nova's examples of addresses.
        ({"address": "*:0a:00.*"}, {"card"}),
        ({"address": ":0a:00."}, {"card"}),
        ({"address": "0000:0a:*.*"}, {"card", "virtual"}),
        ({"address": "*:*:*.*"}, {"card", "virtual", "gpu"}),
        (
            {"address": {"domain": ".*", "bus": "0a", "slot": "1[0-2]", "function": "[2-7]"}},
            {"virtual"},
        ),
        ({"address": {"domain": ".*", "bus": "0A", "slot": "0[0-2]", "function": ".*"}}, {"card"}),
        # From the right, what is left out may be anything.
        ({"address": "0a:00"}, {"card"}),
        ({"address": "1f"}, {"gpu"}),
        ({"address": ".3"}, {"virtual"}),
        ({"address": "1:82:1F.7"}, {"gpu"}),
        ({"address": " 0001 : 82 : 1f . 7 "}, {"gpu"}),
        ({"address": "0002:*:*.*"}, set()),
        ({"address": {"bus": "82"}}, {"gpu"}),
        ({"address": {"bus": "0a|82", "function": "^[17]$"}}, {"card", "gpu"}),
        ({"address": {"slot": "(0|1)(0|f)"}}, {"card", "virtual", "gpu"}),
        ({"address": {}}, {"card", "virtual", "gpu"}),
        # A single address is a physical function's virtual ones as well.
        ({"address": "0000:0a:00.1"}, {"card", "virtual"}),
        ({"address": "0000:0a:00.1", "product_id": "10ed"}, {"virtual"}),
        (
            {"address": {"domain": "0000", "bus": "0A", "slot": "00", "function": "1"}},
            {"card", "virtual"},
        ),
        ({"address": "0000:0a:10.3"}, {"virtual"}),
        ({"devname": "ens1f1"}, {"card", "virtual"}),
        ({"devname": "ens1f1v1"}, {"virtual"}),
        ({"devname": "eth7"}, set()),
        # The other side of the card cannot configure a physical function.
        ({"vendor_id": "8086", "remote_managed": "true"}, {"virtual"}),
        ({"vendor_id": "8086", "remote_managed": "false"}, {"card", "virtual"}),
    ],
)
def test_which_devices_a_spec_fits(keys: dict[str, Any], expected: set[str]) -> None:
    assert fitting(**keys) == expected


def test_an_expression_is_for_the_whole_part() -> None:
    assert not the_spec(address={"slot": "1f?0?|1"} | {"bus": "82"}).fits(VIRTUAL, CARD)
    assert not the_spec(address={"domain": "0000|000"}).fits(GPU, None)


def test_a_device_with_a_longer_domain_is_left_out_as_in_nova() -> None:
    behind_vmd = PciDevice("10000:e1:00.0", "8086", "0a54")
    assert not the_spec().fits(behind_vmd, None)
    assert not the_spec(address="*:e1:*.*").fits(behind_vmd, None)


def test_a_virtual_function_whose_physical_one_is_not_listed() -> None:
    assert the_spec(address="0000:0a:00.1").fits(VIRTUAL, None)
    assert not the_spec(devname="ens1f1").fits(VIRTUAL, None)


@pytest.mark.parametrize(
    ("keys", "tags"),
    [
        ({}, {}),
        ({"physical_network": " physnet1 "}, {"physical_network": "physnet1"}),
        ({"physical_network": None}, {"physical_network": None}),
        ({"trusted": "True"}, {"trusted": "true"}),
        (
            {"trusted": True, "live_migratable": "yes"},
            {"trusted": "true", "live_migratable": "true"},
        ),
        ({"remote_managed": "0", "trusted": "no"}, {"remote_managed": "false", "trusted": "false"}),
        # What no request can be matched with makes no pool of its own.
        ({"managed": "no", "one_time_use": False, "resource_class": "GPU", "traits": "A,B"}, {}),
    ],
)
def test_tags_have_the_form_in_which_requests_name_them(
    keys: dict[str, Any], tags: dict[str, Any]
) -> None:
    assert the_spec(**keys).tags == tags


def test_values_hold_an_object_or_a_list_of_them() -> None:
    lists = ['[{"vendor_id": "8086"}, {"vendor_id": "10de"}]', "", " \n", "[]"]
    apart = ['{"vendor_id": "8086"}', '{\n"vendor_id": "10de"\n}']
    assert device_spec.parse(lists) == device_spec.parse(apart)
    assert device_spec.parse([]) == ()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (
            "{'vendor_id': '8086'}",
            "the value is not JSON: Expecting property name enclosed in double",
        ),
        (
            '{"vendor_id": "8086"',
            "the value is not JSON: Expecting ',' delimiter: line 1 column 21",
        ),
        ("[" * 100_000, "the value is not JSON: maximum recursion depth exceeded"),
        ("8086", "8086 is not a JSON object"),
        ('["8086"]', '"8086" is not a JSON object'),
        ("[[{}]]", "[{}] is not a JSON object"),
        ('{"adress": "0000:0a:00.1"}', 'unknown key "adress" (known are vendor_id, product_id,'),
        ('{"vendor_id": 8086}', "vendor_id 8086 is not a text, or is empty"),
        ('{"vendor_id": ""}', 'vendor_id "" is not a text, or is empty'),
        ('{"vendor_id": "80867"}', 'vendor_id "80867" is neither up to four hexadecimal digits'),
        ('{"product_id": "10f?"}', 'product_id "10f?" is neither up to four'),
        (
            '{"address": "0a:00.1", "devname": "eth0"}',
            "address and devname cannot be used together",
        ),
        ('{"physical_network": ["a"]}', 'physical_network ["a"] is not a text'),
        ('{"trusted": "maybe"}', 'trusted "maybe" is neither "true" nor "false"'),
        ('{"managed": 2}', 'managed 2 is neither "true" nor "false"'),
        ('{"one_time_use": "yes"}', "one_time_use needs a record of used devices"),
        (
            '{"address": 5}',
            "address 5 is neither a text nor an object with the parts of an address",
        ),
        ('{"address": "0000:0a:00. "}', 'address "0000:0a:00. " ends in a blank function'),
        ('{"vendor_id": "-1"}', 'vendor_id "-1" is neither up to four hexadecimal digits nor'),
        (
            '{"address": 3}',
            "address 3 is neither a text nor an object with the parts of an address",
        ),
        ('{"address": "0:0000:0a:00.1"}', "is not of the form domain:bus:slot.function"),
        ('{"address": "0000:0g:00.1"}', 'bus "0g" of the address is neither a hexadecimal number'),
        ('{"address": "0a:0[1-2].1"}', "an expression needs an address with named parts"),
        ('{"address": "0a:00.1.2"}', 'function "1.2" of the address is neither'),
        ('{"address": "10000:0a:00.1"}', 'domain "10000" of the address is above ffff'),
        ('{"address": "100:00.1"}', 'bus "100" of the address is above ff'),
        ('{"address": "20.1"}', 'slot "20" of the address is above 1f'),
        ('{"address": ".8"}', 'function "8" of the address is above 7'),
        ('{"address": {"device": "0a"}}', 'unknown part "device" of the address'),
        ('{"address": {"bus": 10}}', "bus 10 of the address is not a text"),
        (
            '{"address": {"bus": "[0a"}}',
            'bus "[0a" of the address is not a regular expression: unt',
        ),
        (
            '{"address": {"bus": "a{9999999999}"}}',
            "is not a regular expression: the repetition num",
        ),
        # What Nova would take for the beginning of a part.
        (
            '{"address": {"bus": "0"}}',
            'bus "0" of the address matches none from 00 to ff as a whole',
        ),
        ('{"address": {"domain": "0"}}', "matches none from 0000 to ffff as a whole"),
        ('{"address": {"function": "[89]"}}', "matches none from 0 to 7 as a whole"),
        # What a search could take long for.
        ('{"address": {"bus": "(a*)*"}}', "repetitions of a single character"),
        ('{"address": {"bus": "(0|0){4}a"}}', "repetitions of a single character"),
        ('{"address": {"bus": "(|0)a"}}', "repetitions of a single character"),
        ('{"address": {"bus": "(?=0)a"}}', "repetitions of a single character"),
        ('{"address": {"bus": "(0)\\\\1"}}', "repetitions of a single character"),
        ('{"address": {"bus": ".*.*.*.*.*"}}', "has more than 4 repetitions"),
        (json.dumps({"address": {"bus": "0a|" * 30 + "0a"}}), "is longer than 64 characters"),
    ],
)
def test_a_mistake_is_refused_with_option_value_and_cause(value: str, problem: str) -> None:
    with pytest.raises(DeviceSpecError) as refusal:
        device_spec.parse(['{"vendor_id": "8086"}', value])
    text = str(refusal.value)
    assert text.startswith(f"option [pci] device_spec = {value!r}: ")
    assert problem in text
    assert "\n" not in text
    assert (refusal.value.value, problem in refusal.value.problem) == (value, True)


def test_a_value_of_several_lines_is_shown_in_one() -> None:
    with pytest.raises(DeviceSpecError, match=re.escape("""= '{ "trusted": 7 }': trusted""")):
        device_spec.parse(['{\n  "trusted": 7\n}'])


def test_the_start_refuses_a_mistake(tmp_path: Path) -> None:
    conf = agent.options(
        tmp_path, DEFAULT={"compute_driver": "fake"}, pci={"device_spec": '{"vendor_id": "x"}'}
    )
    database: Database = agent.database(conf)
    try:
        with pytest.raises(DeviceSpecError, match='vendor_id "x"'):
            ResourceTracker(conf, database, FakeDriver(conf))
    finally:
        database.close()


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("pci", "device_spec"),
        ("pci", "passthrough_whitelist"),
        ("DEFAULT", "pci_passthrough_whitelist"),
    ],
)
def test_all_names_of_the_option_are_read(tmp_path: Path, section: str, name: str) -> None:
    # oslo.config replaces $names, and keeps a dollar that begins none.
    value = '{"address": {"bus": "^0a$"}, "physical_network": "physnet1"}'
    conf = agent.options(tmp_path, **{section: {name: value}})
    assert conf.pci.device_spec == [value]
    assert device_spec.parse(conf.pci.device_spec) == device_spec.parse([value]) != ()


def test_it_may_be_given_several_times_and_over_several_lines(tmp_path: Path) -> None:
    value = '[{"product_id": "0001"},\n  {"product_id": "0002"}]\ndevice_spec = {"product_id": "3"}'
    conf = agent.options(tmp_path, pci={"device_spec": value})
    found = device_spec.parse(conf.pci.device_spec)
    assert [spec.product_id for spec in found] == ["0001", "0002", "0003"]


def test_nothing_is_given_away_by_default(tmp_path: Path) -> None:
    assert device_spec.parse(agent.options(tmp_path).pci.device_spec) == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
PATTERN_PIECES = st.sampled_from([*"0a1.*+?|()[]{},^$-\\d", "[0-9]", "(0|a)", "x"])
PATTERNS = st.lists(PATTERN_PIECES, max_size=20).map("".join)
OBJECTS = st.dictionaries(
    st.sampled_from(device_spec._KEYS),
    JSON
    | st.fixed_dictionaries({"bus": PATTERNS})
    | st.sampled_from(["8086", "*", "0a:00.", "yes"]),
    max_size=4,
)


@given(st.text() | JSON.map(json.dumps) | st.lists(OBJECTS, max_size=3).map(json.dumps))
def test_any_value_is_read_or_refused(value: str) -> None:
    try:
        specs = device_spec.parse([value])
    except DeviceSpecError:
        return
    for spec in specs:
        spec.fits(CARD, None)
        spec.fits(VIRTUAL, CARD)


@pytest.mark.parametrize(
    "pattern", [".*.*.*.*[^0-9a-f]", "(0|0|0|0|0|0)" * 4 + "a", "0?0?0?0?" + "(0|0)" * 9 + "00000"]
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """The greatest of what passes; a part with many more steps would take minutes."""
    start = process_time()
    with pytest.raises(DeviceSpecError, match="matches none from 0000"):
        the_spec(address={"domain": pattern})
    assert process_time() - start < 20

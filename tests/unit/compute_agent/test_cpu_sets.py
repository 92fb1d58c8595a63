# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What guests may use of a host is what the options say, and what is there."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent import cpu_sets
from compute_agent.cpu_sets import CpuSets, CpusNotOnline, HostCpus
from compute_agent.virt.driver import DriverError, DriverMisconfigured
from tests.fixtures import agent
from tests.fixtures.agent import sample

SETS = st.frozensets(st.integers(0, 40), min_size=1)
# As libvirt's imaginary hosts say, whatever else they say of their CPUs.
MAP = sample("nodeinfo-test-default.json")["calls"]["getCPUMap"]
IMAGINARY = HostCpus(
    frozenset(range(MAP[0])), frozenset(cpu for cpu, online in enumerate(MAP[1]) if online)
)


def all_online(number: int) -> HostCpus:
    return HostCpus(frozenset(range(number)), frozenset(range(number)))


ONLINE = all_online(16)


def loaded(directory: Path, compute: dict[str, object], **default: object) -> CpuSets:
    return cpu_sets.load(agent.options(directory, compute=compute, DEFAULT=default))


def refusal(directory: Path, compute: dict[str, object], **default: object) -> str:
    with pytest.raises(DriverMisconfigured) as caught:
        loaded(directory, compute, **default)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("1", {1}),
        ("0-3,^2,8", {0, 1, 3, 8}),
        ("4-12,^8,15", {4, 5, 6, 7, 9, 10, 11, 12, 15}),
        ("^2, 0-3", {0, 1, 3}),
        ("0-7,^2-5", {0, 1, 6, 7}),
        (" 0 - 2 ,, ^ 1 , ", {0, 2}),
        ("3-3,3", {3}),
        ("0-1,^0-1", set()),
        ("65535", {65535}),
        ("", set()),
    ],
)
def test_a_set_of_cpus_as_nova_writes_it(text: str, cpus: set[int]) -> None:
    assert cpu_sets.parse(text) == cpus


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0-3,x", "'x' is neither a CPU nor a range of them"),
        ("-1", "'-1' is neither a CPU"),
        ("1-", "'1-' is neither a CPU"),
        ("1-2-3", "'1-2-3' is neither a CPU"),
        ("^0^2", r"'\^0\^2' is neither a CPU"),
        ("^", r"'\^' is neither a CPU"),
        ("1 2", "'1 2' is neither a CPU"),
        ("1.5", "'1.5' is neither a CPU"),
        ("+ 1", r"'\+ 1' is neither a CPU"),
        ("0-3,7-4", "'7-4' ends before it begins"),
        ("0-70000", "'0-70000' is more than the highest CPU, 65535"),
    ],
)
def test_what_is_no_set_of_cpus(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        cpu_sets.parse(text)


@given(st.frozensets(st.integers(0, 65_535)))
def test_what_is_shown_can_be_read(cpus: frozenset[int]) -> None:
    assert cpu_sets.parse(cpu_sets.shown(cpus)) == cpus


def test_cpus_are_shown_in_short() -> None:
    assert cpu_sets.shown({9, 3, 1, 2, 5, 6}) == "1-3,5-6,9"
    assert cpu_sets.shown(()) == ""


def test_without_options_all_that_are_online_serve_all_guests() -> None:
    assert CpuSets().floating(ONLINE) == ONLINE.online
    assert CpuSets().pinned(ONLINE) == ONLINE.online
    assert CpuSets().vcpus(ONLINE) == 16


def test_a_shared_set_alone_leaves_nothing_to_pin_to(tmp_path: Path) -> None:
    sets = loaded(tmp_path, {"cpu_shared_set": "2-4"})
    assert sets.floating(ONLINE) == {2, 3, 4}
    assert sets.pinned(ONLINE) == set()
    assert sets.vcpus(ONLINE) == 3


def test_the_option_of_before_20_0_serves_pinned_guests_too(tmp_path: Path) -> None:
    sets = loaded(tmp_path, {}, vcpu_pin_set="2-4")
    assert sets.floating(ONLINE) == sets.pinned(ONLINE) == {2, 3, 4}
    assert sets.vcpus(ONLINE) == 3


def test_beside_dedicated_cpus_the_others_are_the_hosts() -> None:
    sets = CpuSets(dedicated=frozenset(range(2, 16)))
    assert sets.floating(ONLINE) == set()
    assert sets.pinned(ONLINE) == set(range(2, 16))
    assert sets.vcpus(ONLINE) == 14


def test_both_sets_count_since_all_guests_do() -> None:
    # Nova's example: one core of two threads for the host, 16 CPUs to pin to, 30 to float on.
    sets = CpuSets(frozenset(range(18, 48)), frozenset(range(2, 18)))
    assert len(sets.floating(all_online(48))) == 30
    assert len(sets.pinned(all_online(48))) == 16
    assert sets.vcpus(all_online(48)) == 46


def test_only_what_is_online_counts() -> None:
    assert MAP[0] == 8
    assert CpuSets().vcpus(IMAGINARY) == MAP[2] == 3
    assert CpuSets(shared=frozenset({0, 4})).vcpus(IMAGINARY) == 2


def test_a_configured_cpu_that_is_offline_is_named() -> None:
    sets = CpuSets(frozenset(range(4)), frozenset({4, 5, 7}))
    with pytest.raises(CpusNotOnline) as caught:
        sets.floating(IMAGINARY)
    assert isinstance(caught.value, DriverError)
    assert (caught.value.option, caught.value.cpus) == ("[compute] cpu_shared_set", {1, 3})
    with pytest.raises(CpusNotOnline) as caught:
        sets.pinned(IMAGINARY)
    assert str(caught.value) == (
        "option [compute] cpu_dedicated_set names CPUs that are not online: 5,7; "
        "bring them online, or change the option and restart the agent"
    )
    with pytest.raises(CpusNotOnline, match="cpu_shared_set"):
        sets.vcpus(IMAGINARY)


def test_a_cpu_that_the_older_option_names_is_not_blamed_on_the_newer(tmp_path: Path) -> None:
    sets = loaded(tmp_path, {}, vcpu_pin_set="0-1")
    with pytest.raises(CpusNotOnline, match=r"\[DEFAULT\] vcpu_pin_set names .*: 1;"):
        sets.pinned(IMAGINARY)


def test_dedicated_cpus_may_be_off_where_their_power_is_managed(tmp_path: Path) -> None:
    options = {"cpu_shared_set": "0,2", "cpu_dedicated_set": "4-7"}
    conf = agent.options(tmp_path, compute=options, libvirt={"cpu_power_management": True})
    sets = cpu_sets.load(conf)
    assert (sets.floating(IMAGINARY), sets.pinned(IMAGINARY)) == ({0, 2}, {4, 5, 6, 7})
    assert sets.vcpus(IMAGINARY) == 6
    # What others float on is never switched off.
    two = HostCpus(IMAGINARY.present, frozenset({0, 4}))
    with pytest.raises(CpusNotOnline, match=r"cpu_shared_set names CPUs that are not online: 2;"):
        sets.vcpus(two)
    with pytest.raises(CpusNotOnline) as caught:
        sets.pinned(HostCpus(frozenset(range(6)), frozenset({0, 2})))
    assert str(caught.value) == (
        "option [compute] cpu_dedicated_set names CPUs that the host does not have: 6-7; "
        "change the option and restart the agent"
    )


@given(st.none() | SETS, st.none() | SETS, SETS)
def test_guests_get_what_is_online_or_nothing(
    shared: frozenset[int] | None, dedicated: frozenset[int] | None, online: frozenset[int]
) -> None:
    sets = CpuSets(shared, dedicated)
    cpus = HostCpus(online, online)
    named = (shared or frozenset()) | (dedicated or frozenset())
    if named <= online:
        assert sets.floating(cpus) | sets.pinned(cpus) == (named or online)
        assert sets.vcpus(cpus) == len(named or online)
    else:
        with pytest.raises(CpusNotOnline) as caught:
            sets.vcpus(cpus)
        assert caught.value.cpus <= named - online


def test_no_options_are_no_sets(tmp_path: Path) -> None:
    assert loaded(tmp_path, {}) == CpuSets()
    assert loaded(tmp_path, {"cpu_shared_set": "", "cpu_dedicated_set": ""}) == CpuSets()


def test_the_options_of_today(tmp_path: Path) -> None:
    sets = loaded(tmp_path, {"cpu_shared_set": "0-3, ^2", "cpu_dedicated_set": "4-7"})
    assert sets == CpuSets(frozenset({0, 1, 3}), frozenset({4, 5, 6, 7}))


def test_the_option_of_before_20_0_may_reserve_cpus_besides(tmp_path: Path) -> None:
    sets = loaded(tmp_path, {}, vcpu_pin_set='"0-3,^2"', reserved_host_cpus=1)
    assert sets.shared == {0, 1, 3}
    assert sets.dedicated is None


@pytest.mark.parametrize("name", ["cpu_shared_set", "cpu_dedicated_set"])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("0-3,five", "'five' is neither a CPU nor a range of them"),
        ("0-1,^0,^1", "names no CPU; unset the option to have no such set"),
        (",", "names no CPU; unset the option to have no such set"),
    ],
)
def test_a_bad_set_is_refused_by_name(tmp_path: Path, name: str, value: str, why: str) -> None:
    assert refusal(tmp_path, {name: value}) == f"option [compute] {name} = {value!r}: {why}"


def test_a_bad_set_under_the_older_name_is_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, {}, vcpu_pin_set="3-1")
    assert said == "option [DEFAULT] vcpu_pin_set = '3-1': '3-1' ends before it begins"


@pytest.mark.parametrize("name", ["cpu_shared_set", "cpu_dedicated_set"])
def test_old_and_new_options_exclude_each_other(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path, {name: "0-1"}, vcpu_pin_set="2-15") == (
        f"option [DEFAULT] vcpu_pin_set = '2-15': cannot be combined with [compute] {name}, which"
        " replaced it; unset one of these options"
    )


@pytest.mark.parametrize("name", ["cpu_shared_set", "cpu_dedicated_set"])
def test_cpus_are_reserved_by_leaving_them_out(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path, {name: "0-1"}, reserved_host_cpus=2) == (
        f"option [DEFAULT] reserved_host_cpus = 2: cannot be combined with [compute] {name}: the"
        " remaining CPUs are reserved for the host; unset this option"
    )


def test_a_cpu_serves_one_kind_of_guests(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"cpu_shared_set": "0-3", "cpu_dedicated_set": "1,3-7"})
    assert said == (
        "option [compute] cpu_dedicated_set = '1,3-7': [compute] cpu_shared_set = '0-3' "
        "names CPUs 1,3 too; a CPU can be in one set only"
    )


def reserves(directory: Path, *values: str) -> dict[tuple[int, int], int]:
    # The helper writes one line per option; several of the same name are what is tried here.
    lines = "\nreserved_huge_pages = ".join(values)
    return cpu_sets.reserved_pages(
        agent.options(directory, DEFAULT={"reserved_huge_pages": lines} if values else {})
    )


def test_no_pages_are_reserved_unasked(tmp_path: Path) -> None:
    assert reserves(tmp_path) == {}
    assert reserves(tmp_path, "") == {}


@pytest.mark.parametrize(
    ("size", "size_kib"),
    [
        ("2048", 2048),
        ("4", 4),
        ("2MB", 2048),
        ("2MiB", 2048),
        ("2 M", 2048),
        ("64KB", 64),
        ("1GB", 1048576),
        ("1G", 1048576),
        ("16Mb", 2048),
        ("0.5GB", 524288),
        ("1TB", 1073741824),
        ("2.5MB", 2560),
        ("+10", 10),
    ],
)
def test_sizes_have_units_or_are_in_kib(tmp_path: Path, size: str, size_kib: int) -> None:
    assert reserves(tmp_path, f"node:0,size:{size},count:64") == {(0, size_kib): 64}


def test_further_keys_say_nothing(tmp_path: Path) -> None:
    value = "node:0,size:2048,count:+1,comment:for DPDK"
    assert reserves(tmp_path, value) == {(0, 2048): 1}


def test_pages_of_several_cells_and_sizes(tmp_path: Path) -> None:
    values = "node:0,size:2048,count:64", "count:1, node:1, size:1GB", "node:1,size:2MB,count:0"
    assert reserves(tmp_path, *values) == {(0, 2048): 64, (1, 1048576): 1, (1, 2048): 0}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("node:0,size:2048", "needs node, size and count, as in node:0,size:2048,count:64"),
        ("node:0,size:2048,cell:0", "needs node, size and count"),
        ("node:-1,size:2048,count:1", "node '-1' is less than 0"),
        ("node:zero,size:2048,count:64", "node 'zero' is not a number"),
        ("node:0,size:2048,count:-1", "count '-1' is less than 0"),
        ("node:0,size:2048,count:", "count '' is not a number"),
        ("node:0,size:big,count:64", "size 'big' is neither in KiB nor like 2MB or 1GB"),
        ("node:0,size:1b,count:64", "size '1b' is neither"),
        ("node:0,size:0,count:64", "size '0' is neither"),
        ("node:0,size:-4,count:64", "size '-4' is neither"),
    ],
)
def test_bad_reserves_are_refused_by_name(tmp_path: Path, value: str, why: str) -> None:
    with pytest.raises(DriverMisconfigured) as caught:
        reserves(tmp_path, value)
    assert str(caught.value).startswith(f"option [DEFAULT] reserved_huge_pages = {value!r}: {why}")
    assert "\n" not in str(caught.value)


def test_a_reserve_that_is_there_twice_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(DriverMisconfigured, match=r"'node:0,size:2MB,count:2': .* is given twice"):
        reserves(tmp_path, "node:0,size:2048,count:1", "node:0,size:2MB,count:2")

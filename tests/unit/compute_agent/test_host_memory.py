# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Memory comes from one source."""

from hypothesis import given
from hypothesis import strategies as st

from compute_agent.host_memory import HostMemory, disagree, host_memory, parse_meminfo, xen_memory
from tests.fixtures.agent import sample


def test_the_captured_host_has_no_negative_memory() -> None:
    captured = sample("memory-mismatch.json")
    memory = host_memory(captured["proc_meminfo_kib"], captured["libvirt_getInfo_memory_mib"])
    assert memory == HostMemory(
        total_mb=24105, used_mb=captured["consistent_used_mib_memavailable"]
    )


def test_the_captured_meminfo_is_read_whole() -> None:
    figures = parse_meminfo(sample("proc-meminfo.txt"))
    captured = sample("memory-mismatch.json")["proc_meminfo_kib"]
    assert {name: figures[name] for name in captured} == captured
    assert (figures["SwapCached"], figures["HugePages_Total"]) == (0, 0)


def test_old_kernels_do_not_say_what_is_available() -> None:
    captured = sample("memory-mismatch.json")
    meminfo = dict(captured["proc_meminfo_kib"])
    del meminfo["MemAvailable"]
    used = host_memory(meminfo, 6234).used_mb
    assert used == captured["consistent_used_mib_free_buffers_cached"]


def test_without_a_total_libvirt_is_all_there_is() -> None:
    assert host_memory({}, 3072) == HostMemory(3072, None)
    assert host_memory({"MemFree": 1024, "MemTotal": 0}, 3072) == HostMemory(3072, None)


def test_a_missing_figure_counts_nothing() -> None:
    assert host_memory({"MemTotal": 4096}, 1) == HostMemory(4, 4)


def test_a_container_that_sees_less_counts_with_less() -> None:
    assert host_memory({"MemTotal": 2**20, "MemAvailable": 2**19}, 65536) == HostMemory(1024, 512)


@given(
    st.dictionaries(
        st.sampled_from(["MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached"]),
        st.integers(0, 2**40),
    ),
    st.integers(0, 2**30),
)
def test_used_memory_is_between_nothing_and_all(meminfo: dict[str, int], libvirt_mb: int) -> None:
    memory = host_memory(meminfo, libvirt_mb)
    assert memory.used_mb is None or 0 <= memory.used_mb <= memory.total_mb


@given(st.text())
def test_no_meminfo_is_too_strange(text: str) -> None:
    assert all(number >= 0 for number in parse_meminfo(text).values())


def test_strange_lines_of_meminfo_are_left_out() -> None:
    text = (
        "MemTotal: 12 kB\nMemFree:\nBuffers: many kB\n: \nCached -3\nCached: -3 kB\n\u00b2: \u00b2"
    )
    assert parse_meminfo(text) == {"MemTotal": 12}


def test_totals_disagree_from_a_tenth_on() -> None:
    assert not disagree(1000, 900)
    assert disagree(1000, 899)
    assert disagree(6234, 24105)
    assert not disagree(0, 0)


# The worked example of the agent's reference 3.4: what domain 0 and two guests have, in KiB.
DOM0, GUESTS = 4194304, [2097152, 2097152]
DOM0_MEMINFO = {"MemTotal": 4190000, "MemFree": 1572864, "Buffers": 524288, "Cached": 524288}


def test_of_domain_0_only_what_its_kernel_could_give_away_is_free() -> None:
    assert xen_memory(DOM0_MEMINFO, 16384, DOM0, GUESTS) == HostMemory(16384, 5632)


def test_a_newer_kernel_of_domain_0_says_what_is_available() -> None:
    meminfo = DOM0_MEMINFO | {"MemAvailable": 2097152}
    assert xen_memory(meminfo, 16384, DOM0, GUESTS).used_mb == 6144


def test_domain_0_counts_in_full_where_its_meminfo_is_unknown() -> None:
    assert xen_memory({}, 16384, DOM0, GUESTS) == HostMemory(16384, 8192)


def test_domains_are_added_up_before_they_are_cut_off_to_mib() -> None:
    assert xen_memory({}, 16384, 512, [512, 512, 512]).used_mb == 2


@given(
    st.dictionaries(st.sampled_from(["MemFree", "MemAvailable", "Cached"]), st.integers(-5, 2**40)),
    st.integers(0, 2**40),
    st.lists(st.integers(0, 2**40)),
)
def test_domain_0_uses_something_between_nothing_and_all(
    meminfo: dict[str, int], dom0: int, guests: list[int]
) -> None:
    used = xen_memory(meminfo, 1, dom0, guests).used_mb
    assert used is not None
    assert sum(guests) // 1024 <= used <= (sum(guests) + dom0) // 1024

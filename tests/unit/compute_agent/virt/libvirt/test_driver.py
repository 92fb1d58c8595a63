# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The libvirt driver makes facts of what a host answers, dear questions once per connection."""

import logging
from pathlib import Path

import pytest

from compute_agent.virt.driver import (
    DriverAnswerUnusable,
    DriverUnavailable,
    NodeFacts,
    NodeName,
)
from compute_agent.virt.libvirt import driver as module
from compute_agent.virt.libvirt.driver import LibvirtDriver
from tests.fixtures import agent
from tests.fixtures.agent import sample
from tests.unit.compute_agent.virt.libvirt.library import NO_SUPPORT, Daemon, Error, a_host

DEAR = {"getVersion", "getCapabilities", "baselineCPU"}
REMOTE = "qemu+tls://elsewhere/system"


def a_driver(directory: Path, daemon: Daemon, uri: str = "qemu:///system") -> LibvirtDriver:
    options = {"connection_uri": uri, "call_timeout": 20}
    return LibvirtDriver(agent.options(directory, libvirt=options), daemon.library)


def facts(host: LibvirtDriver) -> NodeFacts:
    (node,) = host.nodes()
    return host.facts(node)


def test_a_real_hosts_answers(tmp_path: Path) -> None:
    host = a_driver(tmp_path, a_host(), REMOTE)
    assert host.hosts() == ["alpha"]
    assert host.nodes() == [NodeName("alpha", "vm")]
    found = facts(host)
    assert (found.hypervisor_type, found.hypervisor_version) == ("QEMU", 7002022)
    assert found.vcpus == 2
    assert found.supported_instances[1] == ("i686", "kvm", "hvm")
    assert found.uuid is None


def test_memory_of_a_remote_host_comes_from_its_own_meminfo(tmp_path: Path) -> None:
    captured = sample("nodeinfo-qemu-system.json")["calls"]["getMemoryStats(-1)"]
    found = facts(a_driver(tmp_path, a_host(), REMOTE))
    assert found.memory_mb == captured["total"] // 1024 == 24105
    used = captured["total"] - captured["free"] - captured["buffers"] - captured["cached"]
    assert found.memory_used_mb == used // 1024


def test_memory_of_this_host_comes_from_meminfo(tmp_path: Path) -> None:
    line = next(each for each in module.MEMINFO.read_text().splitlines() if "MemTotal" in each)
    assert facts(a_driver(tmp_path, a_host())).memory_mb == int(line.split()[1]) // 1024


def test_where_nobody_knows_more_libvirts_total_counts(tmp_path: Path) -> None:
    daemon = a_host(getMemoryStats=Error(NO_SUPPORT, "not supported"))
    found = facts(a_driver(tmp_path, daemon, REMOTE))
    assert (found.memory_mb, found.memory_used_mb) == (6234, None)


def test_a_disagreement_is_logged_once_and_again_when_it_moves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = a_host()
    host = a_driver(tmp_path, daemon, REMOTE)
    for memory in (5210, 5594, 6234, 9000):
        daemon.answers["getInfo"] = ["x86_64", memory, 2, 2596, 1, 1, 2, 1]
        with caplog.at_level(logging.INFO):
            facts(host)
    messages = [each.getMessage() for each in caplog.records if "of memory" in each.getMessage()]
    assert [text.split()[2] for text in messages] == ["5210", "6234", "9000"]


def test_the_imaginary_host_counts_its_cpus_otherwise(tmp_path: Path) -> None:
    captured = sample("nodeinfo-test-custom.json")["calls"]
    daemon = a_host(
        getType="TEST", getInfo=captured["getInfo"], getCPUMap=tuple(captured["getCPUMap"])
    )
    found = facts(a_driver(tmp_path, daemon))
    assert (found.vcpus, found.memory_mb, found.memory_used_mb) == (8, 16384, None)


def test_cpus_that_are_offline_do_not_count(tmp_path: Path) -> None:
    daemon = a_host(getCPUMap=(8, [True] * 3 + [False] * 5, 3))
    assert facts(a_driver(tmp_path, daemon)).vcpus == 3


def test_without_a_cpu_map_the_node_info_counts(tmp_path: Path) -> None:
    daemon = a_host(getCPUMap=Error(NO_SUPPORT, "not supported"))
    assert facts(a_driver(tmp_path, daemon)).vcpus == 2


def test_an_expansion_of_the_cpu_is_used(tmp_path: Path) -> None:
    daemon = a_host(baselineCPU=lambda cpus, flags: cpus[0].replace("vme", "zzz"))
    found = facts(a_driver(tmp_path, daemon)).cpu_info
    assert "zzz" in found
    assert "vme" not in found


def test_dear_questions_are_asked_once_per_connection(tmp_path: Path) -> None:
    daemon = a_host()
    host = a_driver(tmp_path, daemon)
    facts(host)
    daemon.calls.clear()
    facts(host)
    assert not DEAR & set(daemon.calls)
    daemon.die()
    with pytest.raises(DriverUnavailable):
        facts(host)
    daemon.running = True
    daemon.answers["getVersion"] = 9001000
    assert facts(host).hypervisor_version == 9001000


def test_a_loss_between_two_questions_is_noticed(tmp_path: Path) -> None:
    daemon = a_host()

    def last_words() -> object:
        daemon.die()
        return sample("nodeinfo-qemu-system.json")["calls"]["getInfo"]

    daemon.answers["getInfo"] = last_words
    with pytest.raises(DriverUnavailable, match="socket is closed"):
        facts(a_driver(tmp_path, daemon))


def test_nonsense_is_an_error_of_the_driver(tmp_path: Path) -> None:
    with pytest.raises(DriverAnswerUnusable):
        facts(a_driver(tmp_path, a_host(getCapabilities="<html>")))


def test_a_new_name_of_the_hypervisor_is_not_taken_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = a_host()
    host = a_driver(tmp_path, daemon)
    host.nodes()
    daemon.answers["getHostname"] = "vm.example.org"
    assert host.nodes() == [NodeName("alpha", "vm")]
    assert "now calls itself vm.example.org; it stays vm here" in caplog.text


def test_disk_is_that_of_the_file_system_where_guests_will_be(tmp_path: Path) -> None:
    found = facts(a_driver(tmp_path, a_host()))
    assert not (tmp_path / "instances").exists()
    assert found.local_gb > 0
    assert found.disk_available_least is not None
    assert 0 <= found.disk_available_least <= found.local_gb


def test_the_nearest_existing_directory(tmp_path: Path) -> None:
    assert module._existing(tmp_path / "a" / "b") == tmp_path
    assert module._existing(tmp_path) == tmp_path
    assert module._existing(Path("surely/not/here")) == Path.cwd()


def test_close_ends_all_questions(tmp_path: Path) -> None:
    host = a_driver(tmp_path, a_host())
    host.close()
    with pytest.raises(DriverUnavailable, match="leaving"):
        host.nodes()

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""CPUs that come online and go offline while the agent runs, as a real libvirtd tells of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from compute_agent.cpu_sets import CpusNotOnline
from compute_agent.virt.libvirt import host
from compute_agent.virt.libvirt.connection import Connection
from compute_agent.virt.libvirt.core_file import FILE
from compute_agent.virt.libvirt.events import Events
from compute_agent.virt.libvirt.host import Host
from compute_agent.virt.libvirt.session import Timeouts
from inventory.objects.numa import NUMACell
from tests.fixtures import agent
from tests.unit.compute_agent.virt.libvirt.library import a_host

DEAR = {"getVersion", "getCapabilities", "baselineCPU"}
# libvirt 9.0 describes CPUs that are offline like this, whatever core and socket they are on.
OFFLINE = "<cpu id='{cpu}' socket_id='0' die_id='0' core_id='0' siblings='{cpu}'/>"
ONLINE = "<cpu id='{cpu}' socket_id='{socket}' die_id='0' core_id='{core}' siblings='{siblings}'/>"


class Machine:
    """Two sockets of two cores with two threads each: {0, 4}, {1, 5}, {2, 6} and {3, 7}."""

    def __init__(
        self, directory: Path, *online: int, is_local: bool = False, **sections: dict[str, Any]
    ) -> None:
        self.online = {*online}
        # Those that the daemon lists in its cells; it leaves out what was offline when it started.
        self.listed = {*range(8)}
        self.daemon = a_host(getCapabilities=self._capabilities, getCPUMap=self._cpu_map)
        library = self.daemon.library
        events = Events(library, lambda: None)
        self._connection = Connection(library, "test:///x", Timeouts(20, 20), events)
        options = agent.options(directory, **sections)
        self._host = Host(options, library, self._connection, is_local)

    def cells(self) -> list[NUMACell]:
        numa = self._host.look().numa
        assert numa is not None
        return numa.cells

    def vcpus(self) -> int:
        return self._host.look().vcpus

    def readings(self) -> int:
        return self.daemon.calls.count("getCapabilities")

    def restart_libvirtd(self) -> None:
        self.daemon.die()
        self.daemon.running = True
        self.listed = {*self.online}

    def _cpu_map(self) -> tuple[int, list[bool], int]:
        return 8, [cpu in self.online for cpu in range(8)], len(self.online)

    def _capabilities(self) -> str:
        cells = "".join(
            f"<cell id='{cell}'><memory unit='KiB'>8388608</memory>"
            f"<cpus>{''.join(self._cpu(2 * cell + each) for each in (0, 1, 4, 5))}</cpus></cell>"
            for cell in (0, 1)
        )
        return (
            "<capabilities><host><cpu><arch>x86_64</arch></cpu>"
            f"<topology><cells>{cells}</cells></topology></host></capabilities>"
        )

    def _cpu(self, cpu: int) -> str:
        if cpu not in self.listed:
            return ""
        if cpu not in self.online:
            return OFFLINE.format(cpu=cpu)
        siblings = ",".join(str(each) for each in sorted({cpu % 4, cpu % 4 + 4} & self.online))
        return ONLINE.format(cpu=cpu, socket=cpu % 4 // 2, core=cpu % 2, siblings=siblings)


MANAGED = {
    "compute": {"cpu_shared_set": "0-1", "cpu_dedicated_set": "2-3,6-7"},
    "libvirt": {"cpu_power_management": True},
}


def test_threads_that_are_switched_on_share_their_cores(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 0, 1, 2, 3)
    assert [cell.siblings for cell in machine.cells()] == [[{0}, {1}], [{2}, {3}]]
    machine.online |= {4, 5, 6, 7}
    near, far = machine.cells()
    assert (near.siblings, far.siblings) == ([{0, 4}, {1, 5}], [{2, 6}, {3, 7}])
    assert (near.cpuset, far.cpuset) == ({0, 1, 4, 5}, {2, 3, 6, 7})
    assert machine.vcpus() == 8
    assert machine.readings() == 2


def test_cpus_that_are_offline_do_not_hide_the_socket_of_a_cell(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 0, 1, 2, 3)
    assert [cell.socket for cell in machine.cells()] == [0, 1]


def test_a_cell_whose_cpus_come_online_has_their_socket(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 0, 1)
    assert [cell.socket for cell in machine.cells()] == [0, None]
    machine.online |= {2, 3}
    assert [cell.socket for cell in machine.cells()] == [0, 1]


def test_threads_that_are_switched_off_leave_cores_of_one(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *range(8))
    assert all(cell.has_threads for cell in machine.cells())
    machine.online -= {4, 5, 6, 7}
    assert [cell.siblings for cell in machine.cells()] == [[{0}, {1}], [{2}, {3}]]
    # Nothing that libvirt would have to describe again.
    assert machine.readings() == 1


def test_what_is_dear_is_not_asked_again_without_a_new_cpu(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *range(8))
    machine.cells()
    machine.daemon.calls.clear()
    for off in ({7}, {6, 7}, {7}):
        machine.online = {*range(8)} - off
        machine.cells()
    assert not DEAR & {*machine.daemon.calls}


def test_idle_dedicated_cpus_that_nova_has_switched_off_count(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 0, 1, 4, 5, **MANAGED)
    near, far = machine.cells()
    assert machine.vcpus() == 6
    assert (near.cpuset, near.pcpuset) == ({0, 1}, set())
    assert (far.cpuset, far.pcpuset) == (set(), {2, 3, 6, 7})


def test_what_is_known_of_dedicated_cpus_outlasts_that_they_are_off(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *range(8), **MANAGED)
    before = machine.cells()
    assert before[1].siblings == [{2, 6}, {3, 7}]
    for on in ({2}, {2, 6}, {7}, set()):
        machine.online = {0, 1, 4, 5} | on
        assert machine.cells() == before


def test_dedicated_cpus_that_are_off_fail_the_audit_without_that_option(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 0, 1, 4, 5, compute=MANAGED["compute"])
    with pytest.raises(CpusNotOnline, match=r"cpu_dedicated_set .* not online: 2-3,6-7;"):
        machine.cells()


def test_dedicated_cpus_outlast_a_libvirtd_that_has_never_seen_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *range(8), **MANAGED)
    before = machine.cells()
    machine.online = {0, 1, 4, 5, 6}
    machine.restart_libvirtd()
    assert machine.cells() == before
    machine.online |= {2}
    assert machine.cells() == before


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the kernel about eight CPUs, of which the second socket's are offline."""
    directory = tmp_path / "cpu"
    for cpu in range(8):
        (directory / f"cpu{cpu}" / f"node{cpu % 4 // 2}").mkdir(parents=True)
    monkeypatch.setattr(host, "CPU_FILES", directory)
    return directory


def switch_on(kernel: Path, cpu: int, siblings: str) -> None:
    topology = kernel / f"cpu{cpu}" / "topology"
    topology.mkdir(exist_ok=True)
    (topology / "thread_siblings_list").write_text(f"{siblings}\n")
    (topology / "physical_package_id").write_text(f"{cpu % 4 // 2}\n")


def test_the_kernel_knows_the_cells_of_dedicated_cpus_that_were_off(
    tmp_path: Path, kernel: Path
) -> None:
    machine = Machine(tmp_path, 0, 1, 4, 5, is_local=True, **MANAGED)
    machine.listed = {0, 1, 4, 5}
    near, far = machine.cells()
    assert (near.cpuset, near.pcpuset) == ({0, 1}, set())
    assert (far.cpuset, far.pcpuset, far.siblings) == (set(), {2, 3, 6, 7}, [{2}, {3}, {6}, {7}])
    # Nova switches on what a guest is pinned to.
    machine.online |= {2, 6}
    for cpu in (2, 6):
        switch_on(kernel, cpu, "2,6")
    _, far = machine.cells()
    assert (far.pcpuset, far.siblings, far.socket) == ({2, 3, 6, 7}, [{2, 6}, {3}, {7}], 1)


def test_threads_that_are_switched_on_count_though_libvirtd_has_never_seen_them(
    tmp_path: Path, kernel: Path
) -> None:
    machine = Machine(tmp_path, 0, 1, 2, 3, is_local=True)
    machine.listed = {0, 1, 2, 3}
    assert [cell.cpuset for cell in machine.cells()] == [{0, 1}, {2, 3}]
    machine.online = {*range(8)}
    for cpu in range(8):
        switch_on(kernel, cpu, f"{cpu % 4},{cpu % 4 + 4}")
    near, far = machine.cells()
    assert (near.siblings, far.siblings) == ([{0, 4}, {1, 5}], [{2, 6}, {3, 7}])
    assert machine.vcpus() == 8


def test_cpus_of_which_nobody_knows_the_cell_are_in_none(tmp_path: Path, kernel: Path) -> None:
    shutil.rmtree(kernel)
    machine = Machine(tmp_path, 0, 1, 4, 5, is_local=True, **MANAGED)
    machine.listed = {0, 1, 4, 5}
    assert [cell.pcpuset for cell in machine.cells()] == [set(), set()]


def restarted(tmp_path: Path, *online: int) -> Machine:
    """Return the machine with an agent that has just started."""
    return Machine(tmp_path, *online, is_local=True, **MANAGED)


def test_what_is_known_of_dedicated_cpus_outlasts_the_agent(tmp_path: Path) -> None:
    before = restarted(tmp_path, *range(8)).cells()
    assert (before[1].siblings, before[1].socket) == ([{2, 6}, {3, 7}], 1)
    assert restarted(tmp_path, 0, 1, 4, 5).cells() == before
    assert restarted(tmp_path, 0, 1, 4, 5, 7).cells() == before


@pytest.mark.parametrize(
    "text", ["", "null", "[[0, 1]]", "[[1, [[2, 1, 3]]]]", '{"1": 2}', "\ud800"]
)
def test_a_file_that_cannot_be_read_counts_for_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_bytes(text.encode(errors="surrogatepass"))
    machine = restarted(tmp_path, 0, 1, 4, 5)
    assert machine.cells()[1].siblings == [{2}, {3}, {6}, {7}]
    machine.online = {*range(8)}
    after = machine.cells()
    assert restarted(tmp_path, 0, 1, 4, 5).cells() == after


@pytest.mark.parametrize(
    "other",
    [
        # Other sockets, cells and cores of CPUs that are online.
        [[0, [[0, 1, [0, 4]]]], [1, [[2, 1, [2, 3]], [3, 1, [2, 3]]]]],
        [[1, [[0, 0, [0, 4]], [2, 1, [2, 3]], [3, 1, [2, 3]]]]],
        [[0, [[0, 0, [0, 1]]]], [1, [[2, 1, [2, 3]], [3, 1, [2, 3]]]]],
    ],
)
def test_a_file_of_another_machine_counts_for_nothing(tmp_path: Path, other: Any) -> None:
    (tmp_path / FILE).write_text(json.dumps(other))
    _, far = restarted(tmp_path, 0, 1, 4, 5).cells()
    assert (far.siblings, far.socket) == ([{2}, {3}, {6}, {7}], None)


def test_a_file_that_cannot_be_written_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).mkdir()
    machine = restarted(tmp_path, *range(8))
    assert [machine.cells()[1].siblings for _ in range(2)] == [[{2, 6}, {3, 7}]] * 2
    (warning,) = caplog.records
    assert warning.getMessage().startswith(f"Cannot write {tmp_path / FILE}: after a restart")


def test_without_power_management_no_file_is_kept(tmp_path: Path) -> None:
    Machine(tmp_path, *range(8), is_local=True, compute=MANAGED["compute"]).cells()
    assert not (tmp_path / FILE).exists()

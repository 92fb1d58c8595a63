# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The start of a daemon, from the choice of its concurrency backend to the end of its service.

Nothing outside of the standard library is imported at the top, see conf/concurrency.py. A program
calls these functions in the order in which they stand here.
"""

import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from importlib.abc import MetaPathFinder
from threading import Thread
from typing import TYPE_CHECKING, Any

from conf import concurrency

if TYPE_CHECKING:
    from oslo_config import cfg

PACKAGE = "berthmaster"


def choose_backend(program: str, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the name of the concurrency backend, or end the program with one line."""
    with refusing(program, ValueError):
        return concurrency.chosen_backend(program, argv, environ)


def refuse_import(name: str) -> None:
    """Let every import of a package fail as if it was not installed."""
    sys.meta_path.insert(0, _Refusal(name))


def start_backend(name: str) -> None:
    """Tell oslo.service; what imports oslo.messaging before that gets whatever is the default."""
    from oslo_service import backend

    backend.init_backend(backend.BackendType(name))


def begin(program: str, patch: Callable[[], None]) -> str:
    """Choose the concurrency backend and set it up; return its name.

    patch makes the standard library green. The program passes it in, so that this module does not
    depend on the library that does it.
    """
    backend = choose_backend(program, sys.argv[1:], os.environ)
    if backend == "eventlet":
        # Said once, in the log, and in words that an operator can do something with.
        warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
        patch()
    else:
        # Libraries import it where they find it, which costs time and memory for nothing.
        refuse_import("eventlet")
    start_backend(backend)
    return backend


@contextmanager
def refusing(program: str, *errors: type[Exception]) -> Iterator[None]:
    """Let these errors end the program with status 1 and one line on standard error."""
    try:
        yield
    except errors as error:
        print(f"{program}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)


def configure(conf: "cfg.ConfigOpts", program: str, argv: Sequence[str]) -> None:
    """Read the options, start logging and answer SIGUSR2 with a report on the process.

    Raises conf.loading.ConfigError. From now on files that are read again change nothing if there
    is an error in them.
    """
    from oslo_reports import guru_meditation_report, opts

    from conf import loading, log_records

    log_records.use()
    opts.set_defaults(conf)
    loading.load(conf, program, argv, metadata.version(PACKAGE))
    conf.mutate_config_files = _rehearsed(conf.mutate_config_files, program, argv)
    guru_meditation_report.TextGuruMeditation.setup_autorun(
        _Version(), service_name=program, conf=conf
    )


def serve(
    conf: "cfg.ConfigOpts", service: Any, workers: int, refusals: Sequence[type[Exception]]
) -> int:
    """Run a service until it is told to stop; return the exit status.

    One that cannot start ends the program with status 1, and with one line for these refusals.
    SIGHUP reads the configuration again and resets the service. It never restarts it.
    """
    from oslo_service import backend
    from oslo_service.service import launch

    from conf.guarded import GuardedService

    if backend.get_backend_type() is backend.BackendType.EVENTLET:
        _wake_on_signals()
    else:
        _reset_workers_on_sighup(conf)
    guarded = GuardedService(service, *refusals)
    launcher = launch(conf, guarded, workers=workers, restart_method="mutate")
    try:
        status = launcher.wait()
    # How the launcher of several native workers ends.
    except SystemExit as end:
        status = end.code
    return 1 if guarded.lost else int(status or 0)


def _rehearsed(reread: Callable[[], Any], program: str, argv: Sequence[str]) -> Callable[[], Any]:
    """Return reread, which first tries the files on options of their own.

    oslo.config takes new files over before it looks at their values.
    """
    from oslo_log import log

    from conf import loading

    def mutate_config_files() -> Any:
        try:
            loading.rehearse(program, argv)
        except loading.ConfigError as error:
            problem = str(error)
        else:
            return reread()
        log.getLogger(__name__).error("Configuration kept as it was: %s", problem)
        return {}

    return mutate_config_files


def _wake_on_signals() -> None:
    """Let a signal be handled at once although all green threads wait for their timers.

    Without a socket to watch eventlet sleeps until the next timer, and a signal does not end that
    sleep: an agent on SQLite would answer SIGTERM only at its next heartbeat.
    """
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        # Also keeps the other end open.
        while theirs and ours.recv(64):
            pass

    Thread(target=watch, name="signals", daemon=True).start()


def _reset_workers_on_sighup(conf: "cfg.ConfigOpts") -> None:
    """Let a worker of the threading backend do on SIGHUP what eventlet's does.

    oslo.service leaves that to cotyledon, which replaces the worker by a new one. The name is
    private: where it is gone, workers are replaced.
    """
    from oslo_service.backend._threading import service as threading_service

    def reload(worker: Any) -> None:
        conf.mutate_config_files()
        worker.service_instance.reset()

    if hasattr(threading_service, "ServiceWrapper"):
        threading_service.ServiceWrapper.reload = reload


class _Refusal(MetaPathFinder):
    """Finds one package, in order to say that it is not there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.split(".")[0] == self._name:
            raise ModuleNotFoundError(f"{self._name} is not used in this process", name=fullname)


class _Version:
    """What the report on SIGUSR2 asks for."""

    def vendor_string(self) -> str:
        return "The Berthmaster authors"

    def product_string(self) -> str:
        return PACKAGE

    def version_string_with_package(self) -> str:
        return metadata.version(PACKAGE)

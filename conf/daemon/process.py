# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Run a daemon: choose its concurrency backend, read its configuration, serve, stop.

Only the standard library is imported at the top, see conf/daemon/concurrency.py.
"""

import _thread
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from importlib.abc import MetaPathFinder
from threading import Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from conf.daemon import concurrency

if TYPE_CHECKING:
    import subprocess

    from oslo_config import cfg

PACKAGE = "berthmaster"
# Before eventlet replaces that of the module by one of green threads.
start_native_thread = _thread.start_new_thread


def refuse_import(name: str) -> None:
    """Make every import of a package fail as if it was not installed."""
    sys.meta_path.insert(0, _ImportRefusal(name))


def start_backend(name: str) -> None:
    """Set the backend of oslo.service; importing oslo.messaging before that sets the default."""
    from oslo_service import backend

    backend.init_backend(backend.BackendType(name))


def prefer_backend(name: str) -> None:
    """Set the backend that oslo.service loads once something needs it, as oslo.messaging does."""
    from oslo_service import backend

    backend.register_backend_default_hook(lambda: backend.BackendType(name))


def limit_numpy_threads() -> None:
    """Let numpy start no threads of OpenBLAS, unless the environment says how many.

    It would start one for each CPU, to multiply large matrices, of which there are none here.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def begin(program: str, patch: Callable[[], None]) -> str:
    """Choose the concurrency backend and set it up; return its name.

    patch makes the standard library green; as an argument it keeps eventlet out of this module.
    """
    limit_numpy_threads()
    # Until the service has started, see conf/daemon/reloads.py; before there is another thread.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    stop_on_interrupt()
    with refusing(program, ValueError):
        backend = concurrency.chosen_backend(program, sys.argv[1:], os.environ)
    if backend == "eventlet":
        # The daemon warns of it once, in the log, with what an operator can do.
        warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
        patch()
    else:
        # Libraries import it if it is installed, which costs time and memory.
        refuse_import("eventlet")
    start_backend(backend)
    return backend


def stop_on_interrupt() -> None:
    """Let SIGINT, as of Ctrl-C, stop the daemon as SIGTERM does; its workers do not see it.

    oslo.service would end the process at once, with status 1. No handler is used, since that one
    replaces it.
    """
    main = _thread.get_ident()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    def wait() -> None:
        while True:
            signal.sigwait({signal.SIGINT})
            signal.pthread_kill(main, signal.SIGTERM)

    start_native_thread(wait, ())


@contextmanager
def refusing(program: str, *errors: type[Exception]) -> Iterator[None]:
    """End the program with status 1 and one line on standard error for these errors."""
    try:
        yield
    except errors as error:
        print(f"{program}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)


def configure(conf: "cfg.ConfigOpts", program: str, argv: Sequence[str]) -> None:
    """Read the options, start logging and answer SIGUSR2 with a report on the process.

    Raise conf.loading.ConfigError. A later reload changes nothing if a file has an error.
    """
    import logging

    from oslo_reports import guru_meditation_report, opts

    from conf import loading
    from conf.daemon.log_records import OneLineRecord

    logging.setLogRecordFactory(OneLineRecord)
    opts.set_defaults(conf)
    loading.load(conf, program, argv, metadata.version(PACKAGE))
    conf.mutate_config_files = CheckedReload(conf, program, argv)
    version = SimpleNamespace(
        vendor_string=lambda: "The Berthmaster authors",
        product_string=lambda: PACKAGE,
        version_string_with_package=lambda: metadata.version(PACKAGE),
    )
    guru_meditation_report.TextGuruMeditation.setup_autorun(
        version, service_name=program, conf=conf
    )


def serve(
    conf: "cfg.ConfigOpts", service: Any, workers: int, refusals: Sequence[type[Exception]]
) -> int:
    """Run a service until SIGTERM; return the exit status.

    It is 1 if the service cannot start, with one line in the log for one of these refusals. SIGHUP
    reloads the configuration and resets the service; it never restarts it.
    """
    from oslo_service import backend
    from oslo_service.service import launch

    from conf import private_apis
    from conf.daemon import reloads
    from conf.daemon.guarded import GuardedService

    def read_again() -> str:
        conf.mutate_config_files()
        return str(conf.mutate_config_files.rejection)

    guarded = GuardedService(service, read_again, *refusals)
    has_native_workers = backend.get_backend_type() is backend.BackendType.THREADING
    if has_native_workers:
        guarded.reloads.takes_signals = False
        private_apis.on_worker_reload(guarded.reloads.request)
    else:
        _wake_on_signals()
    launcher = launch(conf, guarded, workers=workers, restart_method="mutate")
    # A process with workers reads the files and passes SIGHUP on to them.
    if has_native_workers:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    elif workers > 1:
        reloads.take_signals(reloads.call_handler)
    try:
        status = launcher.wait()
    # The launcher of several native workers ends so.
    except SystemExit as end:
        status = end.code
    # The interpreter takes all handlers away at its end.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return 1 if guarded.lost else int(status or 0)


def end_child(child: "subprocess.Popen[bytes]", timeout: float) -> None:
    """End a process that this one has started; kill it when the timeout is over."""
    import subprocess

    child.terminate()
    try:
        child.wait(timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def stop_each(*steps: Callable[[], object]) -> None:
    """Run the steps of a stop in order; log the errors of those that fail."""
    from oslo_log import log

    for step in steps:
        try:
            step()
        # The broker or the database may be gone.
        except Exception as error:
            log.getLogger(__name__).warning(
                "A step of the shutdown failed, continuing with the next: %s: %s",
                type(error).__name__,
                error,
            )


class CheckedReload:
    """Reloads after a check of the files: oslo.config checks values too late."""

    def __init__(self, conf: "cfg.ConfigOpts", program: str, argv: Sequence[str]) -> None:
        self._conf, self._reload = conf, conf.mutate_config_files
        self._program, self._argv = program, argv
        self.rejection = ""

    def __call__(self) -> None:
        from oslo_config import cfg

        from conf import loading, log_setup

        self.rejection = ""
        try:
            loading.read_apart(self._program, self._argv)
            log_setup.reload(self._conf, self._reload)
        except (loading.ConfigError, cfg.Error) as error:
            self.rejection = str(error)
        # oslo.config forgets cached values before it reads the files, not after: a thread that asks
        # for an option meanwhile has its old value cached for good. This forgets them again.
        self._conf.register_opts([])


def _wake_on_signals() -> None:
    """Wake eventlet for a signal although all green threads wait for their timers.

    Without a socket to watch it sleeps until the next timer, and a signal does not end that sleep:
    an agent on SQLite would handle SIGTERM only at its next heartbeat.
    """
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        # The reference to theirs keeps it open.
        while theirs and ours.recv(64):
            pass

    Thread(target=watch, name="signals", daemon=True).start()


class _ImportRefusal(MetaPathFinder):
    """Raises ModuleNotFoundError for one package."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.split(".")[0] == self._name:
            raise ModuleNotFoundError(f"{self._name} is not used in this process", name=fullname)

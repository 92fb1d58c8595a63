# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova as callers of the scheduler: a program that runs in Nova's own environment.

Run as `python -m tests.peer.caller NUMBER:FILE ...`, where NUMBER is that of an open socket and
FILE a nova.conf; each caller is a process of its own, forked when Nova is imported. It reads one
command per line from its socket, a JSON object whose key "do" names a method of Commands, whose key
"context" has what the user's context is made of, and whose other keys are the arguments. Each is
answered by one line of JSON: {"result": ...} or {"failure": ...}. A caller ends with its socket,
and the program with its callers. There is no database and no conductor.
"""

import json
import logging
import os
import socket
import sys
from collections.abc import Iterable

from nova import monkey_patch

# As every program of Nova begins.
monkey_patch.patch(backend="threading")

from nova import config, objects  # noqa: E402 - nothing else of Nova comes before the line above

from tests.peer.commands import Commands  # noqa: E402 - it imports Nova


def main() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    objects.register_all()
    pairs = (each.split(":", 1) for each in sys.argv[1:])
    files = {int(number): file for number, file in pairs}
    callers = []
    for number, file in files.items():
        if (pid := os.fork()) == 0:
            # A socket that one process has open tells the other end when that process ends.
            _close(files.keys() - {number})
            _serve(number, file)
            return
        callers.append(pid)
    _close(files)
    for pid in callers:
        os.waitpid(pid, 0)


def _close(numbers: Iterable[int]) -> None:
    for each in numbers:
        os.close(each)


def _serve(number: int, file: str) -> None:
    """Be one of the callers."""
    config.parse_args(
        [sys.argv[0], f"--config-file={file}"], default_config_files=[], configure_db=False
    )
    commands = Commands()
    with socket.socket(fileno=number) as connection, connection.makefile("rw") as lines:
        for line in lines:
            print(json.dumps(commands.obey(line)), file=lines, flush=True)


if __name__ == "__main__":
    main()

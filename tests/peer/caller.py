# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova as a caller of the scheduler: a program that runs in Nova's own environment.

Run as `python -m tests.peer.caller --config-file FILE`, where FILE is a nova.conf. It reads one
command per line from standard input, a JSON object whose key "do" names a method of Commands, whose
key "context" has what the user's context is made of, and whose other keys are the arguments. Each
is answered by one line of JSON: {"result": ...} or {"failure": ...}. The program ends with its
input. There is no database and no conductor.
"""

import json
import logging
import sys

from nova import monkey_patch

# As every program of Nova begins.
monkey_patch.patch(backend="threading")

from nova import config, objects  # noqa: E402 - nothing else of Nova comes before the line above

from tests.peer.commands import Commands  # noqa: E402 - it imports Nova


def main() -> None:
    # Nobody else may write where the answers go.
    output, sys.stdout = sys.stdout, sys.stderr
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    config.parse_args(sys.argv, default_config_files=[], configure_db=False)
    objects.register_all()
    commands = Commands()
    for line in sys.stdin:
        print(json.dumps(commands.obey(line)), file=output, flush=True)


if __name__ == "__main__":
    main()

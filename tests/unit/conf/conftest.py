# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of conf share: loading a file without leaving traces in the test process."""

import logging
import sys
import warnings
from collections.abc import Callable, Iterator

import pytest
from oslo_config import cfg

from conf import loading


@pytest.fixture
def loaded(tmp_path, process_state) -> Callable[..., cfg.ConfigOpts]:
    """Return what loads the text of a configuration file, or a file by its path."""

    def load(text, *arguments):
        path = text
        if isinstance(text, str):
            path = tmp_path / "berthmaster.conf"
            path.write_text(text)
        conf = cfg.ConfigOpts()
        loading.load(conf, "berthmaster-test", ["--config-file", str(path), *arguments], "1.0")
        return conf

    return load


@pytest.fixture
def process_state() -> Iterator[None]:
    """Put back what oslo.log changes: handlers, levels and hooks of the process."""
    root = logging.getLogger()
    handlers, level, hook, show = root.handlers[:], root.level, sys.excepthook, warnings.showwarning
    levels = {name: logging.getLogger(name).level for name in logging.root.manager.loggerDict}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in logging.root.manager.loggerDict:
        logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))
    sys.excepthook, warnings.showwarning = hook, show

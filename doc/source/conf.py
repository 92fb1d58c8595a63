# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds these pages: sphinx-build -W -b html doc/source build/doc."""

import configparser
from pathlib import Path

_setup = configparser.ConfigParser()
_setup.read(Path(__file__).resolve().parents[2] / "setup.cfg")

project = "Berthmaster"
author = copyright = _setup["metadata"]["author"]
release = version = _setup["metadata"]["version"]
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px"}
# What pip leaves behind where the example was installed from.
exclude_patterns = ["plugins/example/build", "plugins/example/*.egg-info"]
nitpicky = True

# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds these pages and the man pages; make docs and make man call it."""

import configparser
import sys
from pathlib import Path

from conf.daemon import process

# Two extensions import our programs, and the first import of oslo.messaging would choose the
# backend otherwise.
process.refuse_import("eventlet")
process.start_backend("threading")

_ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(Path(__file__).with_name("_extensions")))
_setup = configparser.ConfigParser()
_setup.read(_ROOT / "setup.cfg")

project = "Berthmaster"
author = copyright = _setup["metadata"]["author"]
release = version = _setup["metadata"]["version"]
extensions = ["cliff.sphinxext", "oslo_config.sphinxext", "inline_graphviz", "sphinx_copybutton"]
html_theme = "furo"
html_title = f"Berthmaster {version}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
# What a command prints, and lines of logs, are not for copying.
copybutton_selector = ", ".join(
    f".highlight-{language} pre" for language in ("shell", "sh", "ini", "python", "sql", "yaml")
)
# Of all diagrams; their colors are in pages.css.
graphviz_dot_args = [
    *("-Gbgcolor=transparent", "-Gfontname=Helvetica", "-Gfontsize=11", "-Gnodesep=0.3"),
    *("-Granksep=0.35", "-Glabeljust=l"),
    *("-Nshape=box", "-Nstyle=rounded", "-Nfontname=Helvetica", "-Nfontsize=11"),
    *("-Nmargin=0.15,0.08", "-Nheight=0.3", "-Efontname=Helvetica", "-Efontsize=9"),
    *("-Earrowsize=0.7",),
]
# What pip leaves behind where the example was installed from.
exclude_patterns = ["plugins/example/build", "plugins/example/*.egg-info"]
nitpicky = True
# Two hyphens are the beginning of an option, in help texts too.
smartquotes = False
autoprogram_cliff_application = autoprogram_cliff_app_dist_name = "berthmaster"
# The options of all commands are described once, in man/output.txt.
autoprogram_cliff_ignored = [
    *("-h", "--help", "--format", "--column", "--quote", "--noindent", "--variable", "--prefix"),
    *("--max-width", "--fit-width", "--print-empty", "--sort-column", "--sort-ascending"),
    *("--sort-descending", "--watch"),
]
man_pages = [
    (f"man/{name}", name, what, [author], section)
    for name, what, section in (
        ("berthmaster", "operate a Berthmaster scheduler, or ask it for a host", 1),
        ("berthmaster-agent", "keep the rows of this machine's hypervisor up to date", 8),
        ("berthmaster-scheduler", "decide on which host an instance runs", 8),
    )
]

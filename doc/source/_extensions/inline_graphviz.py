# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Diagrams of sphinx.ext.graphviz as SVG within the page, which style sheets reach.

The extension itself puts them beside the page, as objects, which know nothing of a dark page.
"""

import re
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext import graphviz
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

# Shown when the mouse is over a part of the diagram: its name in the source.
_TITLES = re.compile(r"<title>.*?</title>\n?")


def visit(translator: HTML5Translator, node: graphviz.graphviz) -> None:
    """Write a diagram, with its text for those who do not see it."""
    _, path = graphviz.render_dot(translator, node["code"], node["options"], "svg")
    if path is None:
        # There is a warning already, which ends the build.
        raise nodes.SkipNode
    text = Path(path).read_text(encoding="utf-8")
    svg = text[text.index("<svg") :]
    svg = _TITLES.sub("", svg)
    alternative = escape(" ".join(node["alt"].split()), quote=True)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{alternative}"', 1)
    translator.body.append(f'<div class="diagram">\n{svg}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Take the place of the extension's own way to write HTML."""
    app.setup_extension("sphinx.ext.graphviz")
    app.add_node(graphviz.graphviz, html=(visit, None), override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

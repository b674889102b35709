"""A Sphinx extension: equations as MathML, which browsers draw and screen readers read; nothing is fetched.

The conversion is docutils' own. An equation that it does not understand is a warning and stays LaTeX.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def _write(translator: HTML5Translator, node: nodes.Element, as_block: bool) -> None:
    try:
        translator.body.append(latex2mathml.tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logger.warning("an equation cannot be drawn: %s", error, location=node, type="mathml")
        translator.body.append(f"<code>{translator.encode(node.astext())}</code>")
    raise nodes.SkipNode


def _inline(translator: HTML5Translator, node: nodes.Element) -> None:
    _write(translator, node, as_block=False)


def _block(translator: HTML5Translator, node: nodes.Element) -> None:
    _write(translator, node, as_block=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx; ``html_math_renderer = "mathml"`` then chooses it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

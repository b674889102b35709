"""How Sphinx builds these pages into a site: ``make docs``. Nothing is fetched, neither here nor by the pages."""

from __future__ import annotations

import sys
from pathlib import Path

from dragoman import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "dragoman"
release = version = __version__
project_copyright = "the dragoman contributors, Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "mathml"]
html_math_renderer = "mathml"
exclude_patterns = ["_static"]
root_doc = "index"
highlight_language = "text"
# As Markdown is read elsewhere: "..." stays as it is, and an anchor for each heading.
smartquotes = False
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
# What stands before a colon in a link is a scheme for these alone, so that a path with a colon stays a path.
myst_url_schemes = ["http", "https", "mailto"]
suppress_warnings = ["myst.header"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"dragoman {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}

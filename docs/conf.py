"""Sphinx settings of the documentation site (`make docs`). The pages are the Markdown files of this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import regard

project = "Regard"
version = release = regard.__version__
copyright = "the authors of Regard"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["container", "deploy"]
myst_heading_anchors = 3
myst_enable_extensions = ["html_image"]
default_role = "code"  # `x` in a docstring is code, as it is in Markdown

autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
maximum_signature_line_length = 90

html_theme = "pydata_sphinx_theme"
html_title = "Regard"
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
}

"""Settings of the documentation site; `make docs` builds it into build/docs."""

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
project = "Regard"
html_theme = "pydata_sphinx_theme"

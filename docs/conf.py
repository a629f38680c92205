"""Settings of the documentation site, which `make docs` builds with Sphinx into build/site."""

from __future__ import annotations

import ku_rag

project, release = "ku-rag", ku_rag.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = ["*.md", "docs/**", "notebooks/*.ipynb"]
root_doc = "docs/index"
suppress_warnings = ["toc.not_included"]  # decisions are listed by their own page

html_theme = "furo"
html_title = f"ku-rag {release}"
html_extra_path = ["site"]
html_copy_source = False

man_pages = [("docs/cli", "ku", "answer questions about pictures", "", 1)]

default_role = "py:obj"
smartquotes = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80

myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_excludepatterns = ["*/04_*"]  # its data are not here, so its outputs are stored
nb_execution_timeout = 300

"""How Sphinx builds the documentation; `make docs` calls it, and so does tests/docs."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent)]

project = "airflow-provider-paimon"
author = "the contributors of airflow-provider-paimon"
release = version_of("airflow-provider-paimon")
version = release
language = "en"

extensions = ["myst_parser", "_reference"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_reference"]
nitpicky = True
# A link to a heading of another page is checked as well.
myst_heading_anchors = 4

html_theme = "furo"
html_static_path = ["_static"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_title = project
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
# Nothing is loaded from other places, so that the pages read as well without a network.
html_theme_options = {"footer_icons": []}
# `yaml`, `sql` and so on are known; what a shell or the engine prints is plain text.
highlight_language = "text"

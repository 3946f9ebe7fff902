"""Settings of the site, which Sphinx builds from what ``docs/pages.py`` writes."""

project = html_title = "hwdyno"
extensions = ["myst_parser"]
# Links may lead to headings, as on GitHub.
myst_heading_anchors = 3
highlight_language = "none"
# `--` is an option and no dash.
smartquotes = False

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "logo": {"text": "hwdyno"},
    "navbar_align": "right",
    "navbar_center": [],
    "article_header_start": [],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
}
templates_path = ["templates"]
html_sidebars = {"**": ["navigation"]}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_use_index = False
html_copy_source = False

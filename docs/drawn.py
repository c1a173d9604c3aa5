"""Parts of pages that a module of this folder draws, between two comments."""

from __future__ import annotations


def redrawn(page: str, module: str, content: str) -> str:
    """The text of a page with the part that a module draws, as it is now."""
    begin, end = f"<!-- drawn by docs/{module}.py -->\n", "<!-- end of what is drawn -->\n"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content}\n{end}{after}"

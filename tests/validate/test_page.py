"""docs/accuracy.md is what the code says today."""

from __future__ import annotations

from specplan.planner.validate import page


def test_the_page_is_not_stale() -> None:
    content, table = page.current_section()
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.put_section(text, page.SECTION, content), "run: make accuracy"
    readme = page.README.read_text(encoding="utf-8")
    if f"<!-- begin: {page.SECTION} -->" in readme:
        assert readme == page.put_section(readme, page.SECTION, table), "run: make accuracy"

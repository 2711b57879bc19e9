"""A conversion as a Markdown report: every hunk with its rule."""

from __future__ import annotations

from scaffold.report.summary import Summary
from scaffold.rules import all_rules
from scaffold.templates import render


def markdown(found: Summary) -> str:
    """The report of one conversion."""
    texts = [hunk.text for file in found.files for hunk in file.hunks]
    fence = "```"
    while any(fence in text for text in texts):
        fence += "`"
    reasons = {rule.id: rule for rule in all_rules()}
    return render("report/convert.md", found=found, fence=fence, reasons=reasons)

"""``scaffold review``: which lines of a change a conversion explains, which it does not, and what it would have changed as well.

``sides``    the files before and after: of two commits, two files, or a patch
``change``   one file's change, line by line
``rules_of`` what a line written by hand is for
``review``   the whole: explained, for a human, missing, hazards, notes
``render``   as text, Markdown, HTML, JSON
"""

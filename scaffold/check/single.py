"""Scripts for one GPU: what their conversion would face."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from scaffold.check.finding import Finding
from scaffold.errors import ScaffoldError

_MOST = 20


def conversions(scripts: list[Path], progress: Callable[[str], None]) -> Iterator[Finding]:
    """One note for each diagnostic of a dry conversion, and one for what it would do; scripts beyond the first ``20`` are only named."""
    from scaffold.convert import convert
    from scaffold.plan import Options

    for number, script in enumerate(scripts):
        if number >= _MOST:
            yield Finding(str(script), 1, "SC000", "note", "a training script for one GPU", "`scaffold check` it alone to see what a conversion would face")
            continue
        progress(f"single GPU ({number + 1}/{min(len(scripts), _MOST)}): {script}")
        try:
            conversion = convert(script, Options())
        except ScaffoldError as error:
            yield Finding(str(script), 1, "SC000", "note", f"a training script for one GPU that `scaffold convert` would leave alone: {error}", "see the reason")
            continue
        errors = len(conversion.errors)
        edits = sum(n for _, n in conversion.acted)
        state = f"a conversion would stop at {errors} places" if errors else f"a conversion would make {edits} edits"
        yield Finding(str(script), 1, "SC000", "note", f"a training script for one GPU; {state}", f"scaffold convert {script} --diff")
        paths = {f.source.name: f.source.path for f in conversion.files}
        for d in conversion.diagnostics:
            if d.severity in {"error", "warning"}:
                yield Finding(str(paths.get(d.path, script)), d.line, d.rule, "note", f"conversion: {d.why}", d.do)

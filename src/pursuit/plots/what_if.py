"""The what-if panel of a report: controls for the inputs of a model that runs in the page.

Plain numbers in, HTML out. ``what_if.js`` computes predictions, ``what_if_panel.js`` shows them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from pursuit.plots.escaped import escape

_SHOWN = 12
"""Most controls that are open from the start; the others are in a part that unfolds."""
_STEPS = 200
"""Positions of a slider, unless it moves by whole numbers."""


@dataclass(frozen=True)
class Input:
    """One thing that a reader of the page can set.

    Attributes
    ----------
    name : str
        Its name.
    kind : {"number", "category", "date"}
        What it is: a slider and a box, a menu, or a date.
    start : number, position of a level or ISO date
        Its value at first.
    low, high : float or ISO date, optional
        Ends of the slider of a number; a reader may type numbers beyond. Range of dates.
    whole : bool
        Whether the slider moves by whole numbers.
    levels : sequence of str
        Levels of a category.
    other : bool
        Whether the menu has one more entry, for levels that are not among them.
    clock : bool
        Whether a date has a time of day.
    missing : bool
        Whether the value may be missing.
    weight : float
        How much the input matters: the largest weights come first.
    """

    name: str
    kind: str
    start: Any = 0.0
    low: Any = None
    high: Any = None
    whole: bool = False
    levels: Sequence[str] = ()
    other: bool = True
    clock: bool = False
    missing: bool = False
    weight: float = 0.0

    @property
    def steps(self) -> int:
        """Number of steps of the slider."""
        return round(self.high - self.low) if self.whole else _STEPS

    @property
    def digits(self) -> int:
        """Decimals that tell the positions of the slider apart."""
        return 0 if self.whole else decimals(self.low, self.high)


@dataclass(frozen=True)
class WhatIf:
    """A model that runs in the page, or the reason why it does not.

    Attributes
    ----------
    inputs : sequence of Input
        What a reader can set.
    features : sequence of dict
        How each feature of the model is made of the inputs, in the words of ``what_if.js``.
    model : dict
        Numbers of the model.
    remarks : sequence of str
        What a reader should know of the predictions.
    reason : str
        Why the model cannot run in the page; empty if it can.
    """

    inputs: Sequence[Input] = ()
    features: Sequence[Mapping[str, Any]] = ()
    model: Mapping[str, Any] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    reason: str = ""


def panel(what_if: WhatIf) -> str:
    """The content of the panel's section."""
    if what_if.reason:
        return f"<p>{escape(what_if.reason)}</p>\n"
    order = sorted(range(len(what_if.inputs)), key=lambda i: (-what_if.inputs[i].weight, i))
    rows = [_control(i, what_if.inputs[i]) for i in order]
    more = ""
    if len(rows) > _SHOWN:
        more = (
            f"<details>\n<summary>{len(rows) - _SHOWN} further inputs, which matter less"
            f"</summary>\n{''.join(rows[_SHOWN:])}</details>\n"
        )
    remarks = "".join(f'<p class="remark">{escape(text)}</p>\n' for text in what_if.remarks)
    return f"""<p>Set the inputs: the prediction is computed in this page.</p>
{remarks}<noscript><p>This part needs JavaScript.</p></noscript>
<div class="what-if">
<form class="controls" id="controls" aria-label="Inputs of the model" autocomplete="off">
{"".join(rows[:_SHOWN])}{more}<p><button type="reset">Back to the start</button></p>
</form>
<div class="answer">
<div id="prediction" role="status" aria-live="polite" aria-atomic="true"><p>…</p></div>
<p id="along-of" hidden><label for="output">Curve of</label> <select id="output"></select></p>
<figure>
<svg id="along" viewBox="0 0 480 280" role="img" aria-labelledby="along-text"></svg>
<figcaption id="along-text"></figcaption>
</figure>
</div>
</div>
"""


def block(what_if: WhatIf) -> str:
    """The numbers of the model, and the scripts; empty where it does not run in the page."""
    if what_if.reason:
        return ""
    numbers = {
        "inputs": [
            {
                "name": one.name,
                "kind": one.kind,
                "low": one.low,
                "high": one.high,
                "digits": one.digits if one.kind == "number" else 0,
                "start": one.start,
                "levels": list(one.levels),
                "other": one.other,
            }
            for one in what_if.inputs
        ],
        "features": list(what_if.features),
        "model": what_if.model,
    }
    text = json.dumps(numbers, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = files("pursuit.plots")
    scripts = (
        parts.joinpath(name).read_text(encoding="utf-8")
        for name in ("what_if.js", "what_if_panel.js")
    )
    return (
        f'<script type="application/json" id="model">{text}</script>\n'
        f"<script>\n{''.join(scripts)}</script>\n"
    )


def _control(i: int, one: Input) -> str:
    """The label and the control of an input."""
    kinds = {"number": _number, "category": _menu, "date": _date}
    label = f'<label for="input{i}">{escape(one.name)}</label>\n'
    missing = ""
    if one.missing:
        missing = (
            f'<label class="missing"><input type="checkbox" id="missing{i}"> is missing'
            f'<span class="unseen">: {escape(one.name)}</span></label>\n'
        )
    return (
        f'<div class="control" data-input="{i}">\n{label}{kinds[one.kind](i, one)}{missing}</div>\n'
    )


def _number(i: int, one: Input) -> str:
    at = round((one.start - one.low) / (one.high - one.low) * one.steps)
    value = shown(one.start)
    return (
        f'<input type="range" id="input{i}" min="0" max="{one.steps}" step="1" value="{at}" '
        f'aria-valuetext="{value}">\n'
        f'<input type="number" id="exact{i}" step="any" value="{value}" '
        f'aria-label="{escape(one.name)}, exact value">\n'
    )


def _menu(i: int, one: Input) -> str:
    options = "".join(
        f'<option value="{at}"{" selected" if at == one.start else ""}>{escape(level)}</option>\n'
        for at, level in enumerate(one.levels)
    )
    other = f'<option value="{len(one.levels)}">another level</option>\n' if one.other else ""
    return f'<select id="input{i}">\n{options}{other}</select>\n'


def _date(i: int, one: Input) -> str:
    kind = "datetime-local" if one.clock else "date"
    start, low, high = (escape(str(day)) for day in (one.start, one.low, one.high))
    return f'<input type="{kind}" id="input{i}" value="{start}" min="{low}" max="{high}">\n'


def decimals(low: float, high: float) -> int:
    """Decimals that tell the positions of a slider between two numbers apart."""
    return max(0, 1 - math.floor(math.log10((high - low) / _STEPS)))


def shown(value: float) -> str:
    """A number as a box takes it: all of its digits, without ``.0``."""
    text = repr(float(value))
    return text.removesuffix(".0")

"""A fitted model in the numbers of a page: what the what-if panel of a report needs to run it."""

from __future__ import annotations

from typing import Any

from pursuit.estimators.page.inputs import feature_inputs
from pursuit.estimators.page.kernels import CannotTravelError
from pursuit.estimators.page.models import page_model
from pursuit.estimators.page.table import table_inputs
from pursuit.plots.parts import global_part
from pursuit.plots.what_if import WhatIf

__all__ = ["what_if"]

_MOST_INPUTS = 300
"""Most features that the panel has a control for. More: a page that is slow to open."""


def what_if(
    model: Any, X: Any = None, encoder: Any = None, target: str | None = None
) -> WhatIf | None:
    """The what-if panel of a fitted model.

    Parameters
    ----------
    model : estimator
        A fitted model. Of a full-scale model the panel runs the global part.
    X : items, optional
        Rows that give the ranges of the controls; the basis points by default.
    encoder : TableEncoder, optional
        The encoder that made the rows of the model: the controls are those of its columns.
    target : str, optional
        Name of what a regressor predicts.

    Returns
    -------
    panel : WhatIf or None
        With a reason in place of numbers where the model cannot run in a page; None for a model
        that does not predict.
    """
    part = global_part(model)
    if not hasattr(part, "predict"):
        return None
    try:
        numbers, remarks = page_model(part)
        if part.n_features_in_ > _MOST_INPUTS:
            raise CannotTravelError(
                f"it has {part.n_features_in_:,} features, and the panel has controls for at most "
                f"{_MOST_INPUTS}."
            )
    except CannotTravelError as error:
        return WhatIf(reason=f"This model cannot run in the page: {error}")
    if part is not model and model.n_neighbors_ > 0:
        remarks = [
            f"The page runs without_neighbors(), the basis functions alone: {type(model).__name__} "
            "itself also looks at the training rows near each new row, which are not in the page.",
            *remarks,
        ]
    answer = numbers["answer"]
    if target is not None and answer["kind"] == "numbers" and len(answer["names"]) == 1:
        answer["names"] = [target]
    inputs, features = feature_inputs(part, X) if encoder is None else table_inputs(encoder, part)
    return WhatIf(inputs=inputs, features=features, model=numbers, remarks=remarks)

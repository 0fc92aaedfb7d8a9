"""A fitted model in the numbers of a page: what the what-if panel of a report needs to run it."""

from __future__ import annotations

from typing import Any

from pursuit.estimators.page.inputs import feature_inputs
from pursuit.estimators.page.kernels import CannotTravelError
from pursuit.estimators.page.models import page_model
from pursuit.plots.parts import global_part
from pursuit.plots.what_if import WhatIf

__all__ = ["what_if"]

_MOST_INPUTS = 300
"""Most features that the panel has a control for. More: a page that is slow to open."""


def what_if(model: Any, X: Any = None) -> WhatIf | None:
    """The what-if panel of a fitted model.

    Parameters
    ----------
    model : estimator
        A fitted model. Of a full-scale model the panel runs the global part.
    X : items, optional
        Rows that give the ranges of the controls; the basis points by default.

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
    inputs, features = feature_inputs(part, X)
    return WhatIf(inputs=inputs, features=features, model=numbers, remarks=remarks)

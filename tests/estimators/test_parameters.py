"""One vocabulary: how many constructor parameters there are, and what they are called."""

import inspect
from typing import Self, get_type_hints

import pytest
from sklearn.base import BaseEstimator

import pursuit

NAMED_KERNEL = {"gamma", "coef0", "degree", "kernel_params"}
ESTIMATORS = [
    value
    for name in pursuit.__all__
    if inspect.isclass(value := getattr(pursuit, name))
    and issubclass(value, BaseEstimator)
    and name != "SigmoidAtoms"  # a transformer that makes atoms, and no model
    and name not in ("TableEncoder", "TablePipeline")  # what comes before a model
]
TABLES = [pursuit.TableEncoder, pursuit.TablePipeline]


def parameters(estimator):
    return set(inspect.signature(estimator).parameters)


def test_few_parameters_and_few_names():
    each = [parameters(estimator) for estimator in [*ESTIMATORS, *TABLES]]
    assert len(each) == 23
    assert sum(map(len, each)) <= 375
    assert len(set().union(*each)) <= 75
    assert max(len(own - NAMED_KERNEL) for own in each) <= 18


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__)
def test_every_fit_can_be_limited_and_resumed(estimator):
    own = parameters(estimator)
    assert {"max_time", "checkpoint", "n_jobs", "random_state", "verbose"} <= own
    old = {"pool_size", "subset_size", "selection_rows", "rounds", "candidates", "centers"}
    old |= {"landmarks", "selection", "n_restarts", "tolerance", "batch_size", "pricing"}
    assert not own & old
    if "kernel" in own:
        assert own >= NAMED_KERNEL


@pytest.mark.parametrize(
    "estimator", [*ESTIMATORS, *TABLES], ids=lambda estimator: estimator.__name__
)
def test_a_type_checker_knows_what_a_fit_returns(estimator):
    """Not Any, which would hide wrong arguments of all that is called on the result."""
    assert get_type_hints(estimator.fit)["return"] is Self


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__)
def test_columns_are_named_on_fit_and_partial_fit_only(estimator):
    for name, method in inspect.getmembers(estimator, callable):
        if name.startswith(("_", "set_")) or name in (
            "fit",
            "partial_fit",
            "fit_transform",
            "fit_predict",
        ):
            continue
        try:
            found = set(inspect.signature(method).parameters)
        except (TypeError, ValueError):
            continue
        assert not found & {"target", "weight"}, name

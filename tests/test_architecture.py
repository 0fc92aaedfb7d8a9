"""The page on the architecture walks through one fit and one prediction: this is that walk."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import pursuit
from pursuit import SparseGPRegressor

ROOT = Path(pursuit.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.rst"
documented = pytest.mark.skipif(
    not PAGE.exists(), reason="a source distribution has no documentation"
)
MOST_MODULES, MOST_FRAMES, MOST_TO_THE_PRODUCT = 34, 16, 10


class Walk:
    """Modules that a call enters, its deepest stack, and stacks that end in a kernel's tiles."""

    def __init__(self):
        self.modules, self.depth, self.products, self._stack = set(), 0, [], []
        self.compiled = 0

    def __call__(self, frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event not in ("call", "return") or ROOT not in path.parents:
            return
        # Decorators, some of which are contextlib's, are no step of the walk.
        if frame.f_code.co_name == "watched":
            return
        if event == "return":
            self._stack.pop()
            return
        module, name = path.relative_to(ROOT).as_posix(), frame.f_code.co_name
        self._stack.append((module, name))
        self.modules.add(module)
        self.depth = max(self.depth, len(self._stack))
        self.compiled += name == "compile_kernel"
        if (module, name) == ("kernels/stationary.py", "__call__"):
            self.products.append([called for _, called in self._stack])

    def __enter__(self):
        sys.setprofile(self)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)
        # The call that ends the walk is not part of it.
        self.modules -= {Path(__file__).name}


@pytest.fixture(scope="module")
def walks():
    """A fit of 2 100 rows with moving, calibration and certificate, and a prediction."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2100, 4))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 / 2 + 0.1 * rng.standard_normal(2100)
    model = SparseGPRegressor(
        1.0 * RBF(np.ones(4)),
        noise=0.01,
        n_basis=64,
        optimizer=None,
        refine=20,
        calibration="loo",
        certificate="hybrid",
        n_jobs=1,
        random_state=0,
    )
    with Walk() as fit:
        model.fit(X, y)
    assert model.learning_report_.moved.startswith("moved by 20 steps")
    assert model.certificate_ is not None
    with Walk() as predict:
        model.predict(np.tile(X, (2, 1)))
    with Walk() as few:
        model.predict(X[:1])
    return fit, predict, few


def listed(title):
    """Modules in the table that follows a title of the page."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n{title}\n")
    table = re.split(r"\n[^\n]+\n-{5,}\n", rest)[0]
    return re.findall(r"^``([\w/]+\.py)``", table, re.MULTILINE)


@documented
def test_the_page_names_the_modules_of_one_fit(walks):
    assert sorted(listed("One fit, module by module")) == sorted(walks[0].modules)


@documented
def test_the_page_names_the_modules_of_one_prediction(walks):
    assert sorted(listed("One prediction, module by module")) == sorted(walks[1].modules)


def test_a_fit_is_a_short_walk(walks):
    fit, _, _ = walks
    assert len(fit.modules) <= MOST_MODULES
    assert fit.depth <= MOST_FRAMES
    # Around ``fit`` is the call that answers Ctrl-C.
    inside = [stack[stack.index("fit") :] for stack in fit.products]
    chosen = [len(stack) for stack in inside if stack[1] == "choose_basis"]
    assert max(chosen) <= MOST_TO_THE_PRODUCT


def test_the_kernel_is_compiled_once(walks):
    fit, predict, few = walks
    assert (fit.compiled, predict.compiled, few.compiled) == (1, 0, 0)


def test_one_row_is_predicted_without_detours(walks):
    _, _, few = walks
    assert few.depth <= 9
    assert len(few.modules) <= 8

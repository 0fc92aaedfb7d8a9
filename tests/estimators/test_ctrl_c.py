"""Ctrl-C at any moment: an answer in time, a model that predicts, and a warning."""

import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import pursuit.estimators.fit_run as fit_run
from pursuit import FullScaleGPRegressor, LowRankSVC, SparseGPRegressor, SparseKernelRidge

SCRIPT = textwrap.dedent(
    """
    import signal, sys, warnings
    import numpy as np
    import pursuit

    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (20_000, 5))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    name = sys.argv[1]
    y = f > 0 if name.endswith(("Classifier", "SVC")) else f + 0.1 * rng.standard_normal(len(f))
    model = getattr(pursuit, name)(random_state=0)
    print("begun", flush=True)
    try:
        model.fit(X, y)
        print("done", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        print(len(model.predict(X[:3])))
    """
)
ESTIMATORS = [
    "SparseGPRegressor",
    "SparseGPClassifier",
    "FullScaleGPRegressor",
    "ExactGPRegressor",
    "LowRankSVC",
    "LPMachineRegressor",
    "KernelMatchingPursuitRegressor",
    "HullRegressor",
]


@pytest.mark.verify
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent this signal")
def test_large_fits_answer_at_random_moments():
    """Prints the longest wait; what it may be depends on what else the machine does."""
    rng, waits = np.random.default_rng(0), {}
    for name in ESTIMATORS:
        for _ in range(3):
            with subprocess.Popen(
                [sys.executable, "-c", SCRIPT, name], stdout=subprocess.PIPE, text=True
            ) as process:
                assert process.stdout.readline() == "begun\n"
                time.sleep(rng.uniform(0.5, 10.0))  # not while it reads its rows
                process.send_signal(signal.SIGINT)
                began = time.perf_counter()
                answer = process.stdout.readline()
                waits[name] = max(waits.get(name, 0.0), time.perf_counter() - began)
                rest = process.stdout.read()
            # What comes after the fit, down to the end of the interpreter, is not ours.
            if answer != "done\n":
                assert (answer, rest, process.returncode) == ("interrupted\n", "3\n", 0)
    print("longest wait, s:", {name: round(wait, 2) for name, wait in waits.items()})


@pytest.fixture
def interruptible(monkeypatch):
    """Ctrl-C as Python has it, and no patience at all."""
    monkeypatch.setattr(fit_run, "GRACE_SECONDS", 0.01)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


SENT = []


def endless(A, B):
    """Send Ctrl-C at the first call, and then take for ever."""
    if not SENT:
        SENT.append(True)
        signal.raise_signal(signal.SIGINT)
        time.sleep(60.0)
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize(
    "model",
    [
        SparseGPRegressor(endless, noise=0.1, n_basis=20),
        SparseKernelRidge(endless, n_basis=20),
        LowRankSVC(endless, n_basis=20),
        FullScaleGPRegressor(endless, noise=0.1, n_basis=20, n_neighbors=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_that_does_not_stop_is_replaced(model, interruptible, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (2500, 2))
    y = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1], [-1.0, 1.0])
    y[17] = 7  # a class of one row
    model.set_params(random_state=0, checkpoint=tmp_path / "folder")
    SENT.clear()
    with (
        pytest.warns(UserWarning, match="fitted to 20[0-9] rows only"),
        pytest.raises(KeyboardInterrupt) as caught,
    ):
        model.fit(X, y)
    assert caught.value.__context__ is None
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.8
    if isinstance(model, LowRankSVC):
        assert model.classes_.tolist() == [0, 1, 2, 7]
    assert fit_run.few_rows() == 0
    assert fit_run.grace() is None
    # The folder belongs to the fit of all rows, which goes on as if nothing had been.
    model.fit(X, y)


def test_a_second_ctrl_c_interrupts_at_once(monkeypatch, interruptible):
    monkeypatch.setattr(fit_run, "GRACE_SECONDS", 60.0)

    def kernel(A, B):
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")

    X = np.linspace(0.0, 1.0, 100)[:, None]
    with pytest.raises(KeyboardInterrupt):
        SparseKernelRidge(kernel).fit(X, X[:, 0])

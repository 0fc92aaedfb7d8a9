"""Long fits: what they show, and how they end when the user has seen enough."""

import signal
import threading
from functools import partial

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from pursuit import Search, SparseGPRegressor, SparseKernelRidge
from pursuit.greedy import Pursuit, stopping
from pursuit.rows import BLOCK_ROWS

fixed_gp = partial(SparseGPRegressor, optimizer=None)
"""The kernel is used as given."""

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9: no callbacks")


class Recorder:
    """Writes down every hook; ``at_step`` is called with the number of each finished step."""

    def __init__(self, at_step=lambda number: None):
        self.events = []
        self.steps = 0
        self._at_step = at_step

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context, **_):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, **_):
        self.events.append(("end", context.task_name))
        if context.task_name == "step" and context.parent.task_name == "choose":
            self.steps += 1
            self._at_step(self.steps)

    def count(self, *event):
        return self.events.count(event)


@pytest.fixture
def python_interrupts():
    """SIGINT raises KeyboardInterrupt, also where the test process was started ignoring it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def interrupt_here():
    signal.raise_signal(signal.SIGINT)


# What is shown


@pytest.mark.parametrize("search", ["pooled", "fresh", "full"])
def test_callbacks_see_every_step(waves, search):
    data = waves(150)
    recorder = Recorder()
    model = SparseGPRegressor(n_basis=17, search=search, random_state=0)
    model.set_callbacks(recorder).fit(data.X, data.y)
    assert recorder.steps == 17
    names = {name for _, name in recorder.events}
    # The whole is a task named "fit", and so is the stage of the final pass.
    stages = ["learn", "choose", *([] if search == "fresh" else ["fit"]), "calibrate", "certify"]
    told = [event for event in recorder.events if event[1] != "step"]
    inside = [(hook, name) for name in stages for hook in ("begin", "end")]
    assert told[2:-2] == inside
    assert names == {"fit", "step", *stages}
    assert recorder.count("begin", "step") == recorder.count("end", "step")
    assert recorder.events[0] == ("setup", "fit")
    assert recorder.events[1] == ("begin", "fit")
    assert recorder.events[-2:] == [("end", "fit"), ("teardown", "fit")]


def test_callbacks_change_nothing(waves):
    data = waves(150)
    watched = SparseGPRegressor(n_basis=17, random_state=0).set_callbacks(Recorder())
    plain = SparseGPRegressor(n_basis=17, random_state=0)
    np.testing.assert_array_equal(
        watched.fit(data.X, data.y).predict(data.new), plain.fit(data.X, data.y).predict(data.new)
    )


def test_callbacks_are_torn_down_when_a_fit_fails(waves):
    data = waves(20)
    recorder = Recorder()
    model = SparseGPRegressor(lambda A, B: np.full((len(A), len(B)), np.nan), noise=0.1)
    model.set_callbacks(recorder)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(data.X, data.y)
    assert recorder.count("setup", "fit") == recorder.count("teardown", "fit")


def test_the_progress_bar_of_scikit_learn(waves, capsys):
    pytest.importorskip("rich")
    data = waves(150)
    model = SparseGPRegressor(n_basis=17, random_state=0).set_callbacks(callback.ProgressBar())
    model.fit(data.X, data.y)
    shown = capsys.readouterr().out
    assert "choose" in shown
    assert "100%" in shown


def test_silence_by_default(waves, capfd):
    data = waves(150)
    SparseGPRegressor(n_basis=17).fit(data.X, data.y).predict(data.new, return_std=True)
    assert capfd.readouterr() == ("", "")


def test_verbose_names_the_stages(waves, capsys):
    data = waves(150)
    SparseGPRegressor(n_basis=17, verbose=1).fit(data.X, data.y)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("[SparseGPRegressor] ") and line.endswith(" s") for line in lines)
    stages = [line.split()[1].rstrip(":") for line in lines]
    assert stages == ["learn", "choose", "fit", "calibrate", "certify"]


# Ctrl-C


@pytest.mark.usefixtures("python_interrupts")
@pytest.mark.parametrize("search", ["pooled", "full", "fresh"])
def test_an_interrupt_keeps_the_best_model_so_far(waves, search):
    data = waves(150)
    recorder = Recorder(at_step=lambda number: interrupt_here() if number == 6 else None)
    model = fixed_gp(RBF(0.5), noise=0.1, search=search, random_state=0)
    model.set_callbacks(recorder)
    with (
        pytest.warns(UserWarning, match="interrupted: the model holds the best 6 basis functions"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(data.X, data.y)
    assert model.path_.stop_reason == "interrupted"
    assert model.n_basis_ == len(model.path_) == 6
    shorter = fixed_gp(RBF(0.5), noise=0.1, n_basis=6, search=search, random_state=0)
    shorter.fit(data.X, data.y)
    np.testing.assert_allclose(model.predict(data.new), shorter.predict(data.new), rtol=1e-10)
    assert recorder.count("setup", "fit") == recorder.count("teardown", "fit") == 1


@pytest.mark.usefixtures("python_interrupts")
@pytest.mark.parametrize("search", ["pooled", "full", "fresh"])
def test_an_interrupt_inside_the_users_kernel(waves, search):
    data = waves(100)
    calls = []

    def kernel(A, B):
        calls.append(1)
        if len(calls) == 12:
            interrupt_here()
        return RBF(0.5)(A, B)

    model = SparseGPRegressor(kernel, noise=0.1, search=search, n_jobs=1, random_state=0)
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        model.fit(data.X, data.y)
    assert len(calls) >= 12
    assert model.n_basis_ >= 1
    assert np.all(np.isfinite(model.predict(data.new)))


@pytest.mark.usefixtures("python_interrupts")
def test_an_interrupt_in_the_first_round_keeps_that_round(waves, monkeypatch):
    data = waves(2100)
    step = Pursuit.step
    first = []

    def interrupted_step(self):
        first.append(self)
        if self is first[0] and self.size == 9:
            interrupt_here()
        return step(self)

    monkeypatch.setattr(Pursuit, "step", interrupted_step)
    model = fixed_gp(
        RBF(0.5),
        noise=0.1,
        n_basis=40,
        search=Search(pool_size=80, rounds=2),
        certificate=None,
        random_state=0,
    )
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        model.fit(data.X, data.y)
    assert model.path_.stop_reason == "interrupted"
    assert model.n_basis_ == 10


class Interrupting:
    """A kernel during whose pass over all rows Ctrl-C is pressed once so many rows are done."""

    def __init__(self, n_basis, after):
        self.n_basis, self.after, self.rows = n_basis, after, 0

    def __call__(self, A, B):
        K = RBF(0.5)(A, B)
        if len(B) == self.n_basis < len(A):
            before, self.rows = self.rows, self.rows + len(A)
            if before < self.after <= self.rows:
                interrupt_here()
        return K


@pytest.mark.usefixtures("python_interrupts")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "estimator",
    [
        partial(SparseGPRegressor, noise=0.1, normalize_y=False, search=Search(pool_size=100)),
        partial(SparseKernelRidge, method="random", alpha=0.1),
    ],
)
def test_an_interrupt_in_the_last_pass_ends_it_after_a_block(monkeypatch, estimator, weighted):
    monkeypatch.setattr(stopping, "PATIENCE_SECONDS", 0.0)
    m = 4 * BLOCK_ROWS
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (m, 2))
    y, w = np.sin(2.0 * X[:, 0]) + X[:, 1], np.ones(m)
    if weighted:
        w[: m // 2 : 2] = 0.0
    kernel = Interrupting(16, after=BLOCK_ROWS + 1)
    model = estimator(kernel, n_basis=16, n_jobs=1, random_state=0)
    # Two blocks of the rows that are present have been read then.
    read = 2 * BLOCK_ROWS + (BLOCK_ROWS if weighted else 0)
    told = rf"best 16 basis functions .* first {read} rows: partial_fit adds others"
    with pytest.warns(UserWarning, match=told), pytest.raises(KeyboardInterrupt):
        model.fit(X, y, w)
    assert model.path_.stop_reason == "interrupted"
    assert model.certificate_ is None
    K, K_SS = RBF(0.5)(X[:read], model.basis_), RBF(0.5)(model.basis_)
    weights = w[:read, None]
    best = np.linalg.solve(K.T @ (weights * K) + 0.1 * K_SS, K.T @ (w[:read] * y[:read]))
    new = X[:50]
    np.testing.assert_allclose(model.predict(new), RBF(0.5)(new, model.basis_) @ best, atol=1e-7)
    model.partial_fit(X[read:], y[read:], w[read:])
    whole = estimator(Interrupting(16, after=np.inf), n_basis=16, random_state=0, certificate=None)
    np.testing.assert_allclose(model.predict(new), whole.fit(X, y, w).predict(new), atol=1e-7)


@pytest.mark.usefixtures("python_interrupts")
def test_a_short_pass_is_finished_after_an_interrupt(waves):
    data = waves(2 * BLOCK_ROWS)
    model = SparseGPRegressor(
        Interrupting(16, after=1),
        noise=0.1,
        n_basis=16,
        n_jobs=1,
        random_state=0,
        search=Search(pool_size=100),
    )
    with pytest.warns(UserWarning, match="found so far.$"), pytest.raises(KeyboardInterrupt):
        model.fit(data.X, data.y)
    whole = SparseGPRegressor(
        Interrupting(16, after=np.inf),
        noise=0.1,
        n_basis=16,
        n_jobs=1,
        random_state=0,
        search=Search(pool_size=100),
    )
    np.testing.assert_array_equal(
        model.predict(data.new), whole.fit(data.X, data.y).predict(data.new)
    )


@pytest.mark.usefixtures("python_interrupts")
def test_an_interrupt_while_certifying_keeps_the_model(waves):
    data = waves(100)

    class AtCertify(Recorder):
        def on_fit_task_begin(self, estimator, context, **_):
            if context.task_name == "certify":
                interrupt_here()

    model = fixed_gp(RBF(0.5), noise=0.1, n_basis=15)
    model.set_callbacks(AtCertify())
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        model.fit(data.X, data.y)
    assert model.n_basis_ == 15
    assert np.all(np.isfinite(model.predict(data.new)))


@pytest.mark.usefixtures("python_interrupts")
def test_a_second_interrupt_ends_the_fit_at_once(waves):
    data = waves(100)
    calls = []

    def kernel(A, B):
        calls.append(1)
        if len(calls) in (5, 6):
            interrupt_here()
        return RBF(0.5)(A, B)

    with pytest.raises(KeyboardInterrupt):
        SparseGPRegressor(kernel, noise=0.1, n_jobs=1).fit(data.X, data.y)
    assert len(calls) == 6


def test_fit_in_another_thread(waves):
    data = waves(100)
    model = SparseGPRegressor(n_basis=10, random_state=0)
    thread = threading.Thread(target=model.fit, args=(data.X, data.y))
    thread.start()
    thread.join()
    here = SparseGPRegressor(n_basis=10, random_state=0).fit(data.X, data.y)
    np.testing.assert_array_equal(model.predict(data.new), here.predict(data.new))

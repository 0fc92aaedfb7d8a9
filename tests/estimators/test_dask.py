"""The same model from NumPy and from dask, on local threads and on a cluster of processes."""

import logging
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from pursuit import (
    ExactGPRegressor,
    GreedyFeatureMap,
    HullMixture,
    HullRegressor,
    KernelMatchingPursuitClassifier,
    KernelMatchingPursuitRegressor,
    Search,
    SparseGPRegressor,
    SparseKernelCCA,
    SparseKernelPCA,
    SparseKernelRidge,
)
from pursuit.rows import BLOCK_ROWS

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

M = 2600  # more than the 2 000 up to which nothing is sampled


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, 3))
    y = np.sin(X @ [1.0, 2.0, 0.5]) + 0.1 * rng.normal(size=M)
    return X, y, rng.normal(size=(40, 3))


def gaussian_process(**options):
    given = {"n_basis": 40, "noise": 0.1, "certificate": None, "random_state": 0, **options}
    return SparseGPRegressor(RBF(1.0), optimizer=None, **given)


def predictions(model, new):
    return model.predict(new)


def scores(model, new):
    return model.transform(new)


CASES = {
    "gp": (gaussian_process, "basis_indices_", predictions),
    "gp, two rounds": (
        lambda: gaussian_process(search=Search(rounds=2)),
        "basis_indices_",
        predictions,
    ),
    "gp, size found": (
        lambda: gaussian_process(n_basis="auto"),
        "basis_indices_",
        predictions,
    ),
    "gp, fresh subsets": (
        lambda: gaussian_process(search="fresh", n_basis=10),
        "basis_indices_",
        predictions,
    ),
    "gp, hybrid certificate": (
        lambda: gaussian_process(certificate="hybrid"),
        "basis_indices_",
        lambda model, new: np.append(model.predict(new), model.certificate_.lower),
    ),
    **{
        f"ridge, {method} {options}": (
            lambda method=method, options=options: SparseKernelRidge(
                method=method, n_basis=20, certificate=None, random_state=0, **options
            ),
            "basis_indices_",
            predictions,
        )
        for method, options in (
            ("greedy", {}),
            ("kappa", {}),
            ("kappa", {"refit": True}),
            ("random", {}),
        )
    },
    "map": (
        lambda: GreedyFeatureMap(n_components=50, random_state=0),
        "component_indices_",
        scores,
    ),
    "map, column space": (
        lambda: GreedyFeatureMap(n_components=20, projection="column", random_state=0),
        "component_indices_",
        lambda model, new: np.append(model.transform(new), model.residual_trace_),
    ),
    "kpca": (
        lambda: SparseKernelPCA(n_basis=30, search=Search(pool_size=300), random_state=0),
        "basis_indices_",
        lambda model, new: np.abs(model.transform(new)),
    ),
    "matching pursuit": (
        lambda: KernelMatchingPursuitRegressor(
            search=Search("pooled", pool_size=400, rows=900), random_state=0
        ),
        "basis_indices_",
        predictions,
    ),
    "hull": (lambda: HullRegressor(n_terms=20, random_state=0), "basis_indices_", predictions),
    "mixture": (
        lambda: HullMixture(n_terms=3, random_state=0),
        "weights_",
        lambda model, new: model.score_samples(new),
    ),
}


OTHER_FORMULAS = {
    # Features are held in memory but formed anew on a cluster, step by step.
    "map": 1e-12,
    "map, column space": 1e-12,
    # Blocks of the kernel matrix serve twice in memory.
    "hull": 1e-12,
    "gp, hybrid certificate": 1e-12,
}
"""Where dask rows and rows in memory do not take the same sums, and how far they may be apart."""


@pytest.mark.parametrize("name", CASES)
def test_the_same_model_from_numpy_and_from_dask(task, name):
    X, y, new = task
    make, basis, values = CASES[name]
    unsupervised = "map" in name or name in ("kpca", "mixture")
    one = make().fit(X) if unsupervised else make().fit(X, y)
    rows, targets = da.from_array(X, chunks=(700, 2)), da.from_array(y, chunks=500)
    other = make().fit(rows) if unsupervised else make().fit(rows, targets)
    np.testing.assert_array_equal(getattr(other, basis), getattr(one, basis))
    expected = values(one, new)
    error = np.abs(values(other, new) - expected).max()
    assert error <= OTHER_FORMULAS.get(name, 0.0) * np.abs(expected).max()


@pytest.fixture(scope="module")
def blocks():
    """More than one block of rows, and a rest."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(BLOCK_ROWS + 1500, 3))
    y = np.sin(X @ [1.0, 2.0, 0.5]) + 0.1 * rng.normal(size=len(X))
    return X, y, rng.normal(size=(40, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: gaussian_process(dtype="float32"),
        lambda: SparseGPRegressor(
            RBF(0.2), optimizer=None, noise=1e-6, n_basis=40, certificate=None, random_state=0
        ),
        lambda: SparseKernelRidge(method="kappa", n_basis=5, certificate=None, random_state=0),
        lambda: KernelMatchingPursuitRegressor(
            n_basis="validation",
            search=Search("pooled", pool_size=400, rows=900),
            random_state=0,
        ),
    ],
)
@pytest.mark.parametrize("chunks", [1700, ((1, 8190, 2, 0, 1499), (3,))])
def test_partitions_that_end_within_blocks_do_not_change_a_bit(blocks, make, chunks):
    X, y, new = blocks
    one = make().fit(X, y)
    other = make().fit(da.from_array(X, chunks=chunks), y)
    np.testing.assert_array_equal(other.basis_indices_, one.basis_indices_)
    np.testing.assert_array_equal(other.predict(new), one.predict(new))


@pytest.mark.parametrize("chunks", [M, (1, 1299, 0, 1300), 333])
@pytest.mark.parametrize("weighted", [False, True])
def test_any_partitioning_gives_the_same_model(task, chunks, weighted):
    X, y, new = task
    weights = np.random.default_rng(1).integers(0, 3, M).astype(float) if weighted else None
    one = gaussian_process().fit(X, y, weights)
    rows = da.from_array(X, chunks=(chunks, (3,)) if isinstance(chunks, tuple) else (chunks, 3))
    other = gaussian_process().fit(rows, y, weights)
    np.testing.assert_array_equal(other.basis_indices_, one.basis_indices_)
    np.testing.assert_array_equal(other.predict(new), one.predict(new))
    assert other.path_.entries[-1] == one.path_.entries[-1]


def test_learning_moving_and_calibrating_give_the_same_model(task, monkeypatch):
    monkeypatch.setattr("pursuit.limits.EVIDENCE_ROWS", 200)
    X, y, new = task
    one, other = (
        SparseGPRegressor(RBF(1.0), n_basis=30, refine=3, random_state=0).fit(rows, y)
        for rows in (X, da.from_array(X, chunks=(900, 3)))
    )
    assert one.learning_report_.moved == other.learning_report_.moved
    answers = one.predict(new, return_std=True), other.predict(new, return_std=True)
    for a, b in zip(*answers, strict=True):
        np.testing.assert_array_equal(b, a)


def test_two_views_in_different_partitions(task):
    X, _, new = task
    Y = np.tanh(X[:, :2]) + 0.1
    one = SparseKernelCCA(n_basis=20, n_components=2, random_state=0).fit(X, Y)
    left, right = da.from_array(X, chunks=(700, 3)), da.from_array(Y, chunks=(450, 2))
    other = SparseKernelCCA(n_basis=20, n_components=2, random_state=0).fit(left, right)
    np.testing.assert_array_equal(other.basis_indices_, one.basis_indices_)
    np.testing.assert_array_equal(other.transform(new), one.transform(new))
    np.testing.assert_array_equal(
        other.generalization_bound_.value, one.generalization_bound_.value
    )
    assert other.score(left, right) == pytest.approx(one.score(X, Y), rel=1e-12)
    np.testing.assert_allclose(other.transform(left, right)[1], one.transform(X, Y)[1], atol=1e-12)


def test_columns_of_a_data_frame_are_targets_weights_and_features(task):
    X, y, _ = task
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    weights = np.arange(M) % 3
    one = gaussian_process().fit(frame, y, weights)
    whole = frame.assign(w=weights, y=y)
    collection = dd.from_pandas(whole, npartitions=4)
    collection = collection[collection.a > -10]  # of unknown length
    other = gaussian_process().fit(collection, target="y", weight="w")
    assert other.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(other.basis_indices_, one.basis_indices_)
    lazy = other.predict(collection[["y", "c", "b", "a"]])
    np.testing.assert_allclose(lazy.compute(), one.predict(frame), rtol=1e-12)
    assert other.score(collection, collection["y"]) == pytest.approx(one.score(frame, y))
    with pytest.raises(ValueError, match=r"no column 'yy' \(did you mean 'y'"):
        gaussian_process().fit(collection, target="yy")
    with pytest.raises(ValueError, match="no column 'c'"):
        other.predict(collection[["a", "b"]])


def test_predictions_are_lazy_with_the_right_shapes_and_types(task):
    X, y, _ = task
    rows = da.from_array(X.astype(np.float32), chunks=(1000, 2))
    model = gaussian_process().fit(X, y)
    mean, std = model.predict(rows, return_std=True)
    assert isinstance(mean, da.Array)
    assert (mean.chunks, std.dtype) == (((1000, 1000, 600),), np.float32)
    expected = model.predict(X.astype(np.float32), return_std=True)
    for lazy, now in zip(dask.compute(mean, std), expected, strict=True):
        np.testing.assert_array_equal(lazy, now)
    features = GreedyFeatureMap(n_components=8, random_state=0).fit(rows)
    lazy = features.transform(rows)
    assert (lazy.shape, lazy.dtype, lazy._meta.dtype) == ((M, 8), np.float32, np.float32)
    np.testing.assert_array_equal(lazy.compute(), features.transform(X.astype(np.float32)))
    labels = np.where(y > 0, "up", "down")
    classifier = KernelMatchingPursuitClassifier(n_basis=5, random_state=0).fit(X, labels)
    np.testing.assert_array_equal(classifier.predict(rows).compute(), classifier.predict(X))
    assert classifier.decision_function(rows).shape == (M,)
    assert classifier.score(rows, da.from_array(labels, chunks=500)) == classifier.score(X, labels)
    exact = ExactGPRegressor(RBF(1.0), noise=0.1).fit(rows[:200], y[:200])
    assert exact.predict(rows).shape == (M,)
    with pytest.raises(ValueError, match="needs all rows at once"):
        model.predict(rows, return_cov=True)
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.predict(rows[:, :2])


def test_dask_ml_wraps_models(task):
    wrappers = pytest.importorskip("dask_ml.wrappers", reason="dask-ml is not installed")
    X, y, _ = task
    rows = da.from_array(X, chunks=(1000, 3))
    wrapped = wrappers.ParallelPostFit(gaussian_process()).fit(rows, y)
    lazy = wrapped.predict(rows)
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), gaussian_process().fit(X, y).predict(X), rtol=1e-12)


def test_what_a_fitted_model_can_do_with_the_rows_it_can_do_with_dask(task):
    X, y, new = task
    rows = da.from_array(X, chunks=(700, 3))
    one, other = gaussian_process().fit(X, y), gaussian_process().fit(rows, y)
    for kind in ("published", "scaled", "grouped", "two-level", "pcg"):
        a, b = one.certify(X, y, kind=kind), other.certify(rows, y, kind=kind)
        assert b.lower == pytest.approx(a.lower, rel=1e-12)
    for a, b in zip(one.std_bounds(new, X), other.std_bounds(new, rows), strict=True):
        np.testing.assert_array_equal(b, a)
    assert (
        other.grow(45, rows, y).basis_indices_.tolist()
        == one.grow(45, X, y).basis_indices_.tolist()
    )


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (lambda: da.zeros((0, 3)), "holds no rows"),
        (lambda: da.ones((30, 3), chunks=10) * np.nan, r"NaN: column 0 of partition \d \(rows"),
        (lambda: da.ones((20, 3), chunks=10), r"inconsistent numbers of samples: \[20, 30\]"),
    ],
)
def test_bad_collections_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        gaussian_process().fit(X(), np.ones(30))


def test_a_kernel_matrix_does_not_come_from_dask():
    model = SparseGPRegressor("precomputed", noise=0.1)
    with pytest.raises(ValueError, match="matrix in memory"):
        model.fit(da.eye(30, chunks=10), np.ones(30))


# A cluster of processes


@pytest.fixture(scope="module")
def cluster():
    """A cluster with one worker of one thread, closed in the end."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    # Workers are forked from a process that has imported what they need, which saves time.
    method = "spawn" if sys.platform == "win32" else "forkserver"
    fork = {"distributed.worker.multiprocessing-method": method}
    if method == "forkserver":
        with dask.config.set(fork):
            distributed.utils.get_mp_context().set_forkserver_preload(["distributed", "pursuit"])
    with (
        dask.config.set(fork),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as found,
        distributed.Client(found),
    ):
        yield found


@pytest.fixture
def workers(cluster):
    """``workers(n)``: bring the cluster to at least n workers, and give their process numbers."""
    distributed = pytest.importorskip("distributed")

    def scale(n):
        client = distributed.default_client()
        cluster.scale(max(n, len(cluster.workers)))
        client.wait_for_workers(n, timeout=60)
        return set(client.run(os.getpid).values())

    return scale


def test_a_partition_that_fails_on_a_worker_is_named(workers):
    workers(1)

    def load(block):
        if block[0, 0] == 2:
            raise OSError("the disk is gone")
        return block

    rows = da.from_array(np.arange(40.0).reshape(40, 1) // 10, chunks=(10, 1))
    rows = rows.map_blocks(load, meta=np.empty((0, 1)))
    with pytest.raises(RuntimeError, match=r"partition 2 \(rows 20 to 29\) .* disk is gone"):
        SparseKernelRidge().fit(rows, np.ones(40))


def test_predictions_of_a_data_frame_on_a_worker(task, workers):
    workers(1)
    X, y, _ = task
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = gaussian_process().fit(frame, y)
    lazy = model.predict(dd.from_pandas(frame, npartitions=3))
    np.testing.assert_allclose(lazy.compute(), model.predict(frame), rtol=1e-12)


def halting_kernel(folder):
    """A Gaussian kernel that, once armed, stands still in the first other process that calls it."""
    home, armed, caught = os.getpid(), folder / "armed", folder / "caught"

    def kernel(A, B):
        if os.getpid() != home and armed.exists():
            try:
                armed.rename(caught)
            except FileNotFoundError:
                pass
            else:
                (folder / "process").write_text(str(os.getpid()), encoding="utf-8")
                time.sleep(600)
        squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T
        return np.exp(-0.5 * np.maximum(squares, 0.0))

    return kernel


def fitted_numbers(model):
    return model.basis_indices_, model.dual_coef_, model._solution.L


def test_one_two_and_four_workers_and_one_that_is_killed_give_one_model(task, workers, tmp_path):
    rng, new = np.random.default_rng(6), task[2]
    X = rng.normal(size=(4 * BLOCK_ROWS + 500, 3))  # a task each
    y = np.sin(X @ [1.0, 2.0, 0.5]) + 0.1 * rng.normal(size=len(X))
    rows, targets = da.from_array(X, chunks=(3000, 3)), da.from_array(y, chunks=3000)
    kernel = halting_kernel(tmp_path)

    def fit(X, y):
        model = SparseGPRegressor(
            kernel,
            noise=0.1,
            n_basis=30,
            search=Search(pool_size=200),
            certificate=None,
            random_state=0,
        )
        return model.fit(X, y)

    models = {}
    for n in (1, 2, 4):
        assert len(workers(n)) == n
        models[n] = fit(rows, targets)
    pids = workers(4)
    (tmp_path / "armed").touch()
    # A daemon, which does not keep a test that has failed from ending.
    murder = threading.Thread(target=kill_when_written, args=(tmp_path / "process",), daemon=True)
    murder.start()
    models["killed"] = fit(rows, targets)
    murder.join()
    victim = int((tmp_path / "process").read_text(encoding="utf-8"))
    assert victim in pids
    assert victim not in workers(4)
    for model in models.values():
        for mine, first in zip(fitted_numbers(model), fitted_numbers(models[1]), strict=True):
            np.testing.assert_array_equal(mine, first)
    here = fit(X, y)
    np.testing.assert_array_equal(here.basis_indices_, models[1].basis_indices_)
    np.testing.assert_array_equal(models[1].predict(new), here.predict(new))


def kill_when_written(path):
    while not path.exists() or not path.read_text(encoding="utf-8"):
        time.sleep(0.01)
    # Windows has one way of killing, whatever the signal.
    os.kill(int(path.read_text(encoding="utf-8")), getattr(signal, "SIGKILL", signal.SIGTERM))

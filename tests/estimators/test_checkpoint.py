"""A killed fit goes on where it was, to the identical model."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import RBF, PairwiseKernel

from pursuit import Evidence, Search, SparseGPRegressor
from pursuit.estimators.checkpoint import Checkpoint, fingerprint
from pursuit.gram import GramStatistics
from pursuit.greedy import Interrupted
from pursuit.rows import BLOCK_ROWS, Sample, as_rows
from pursuit.store import StoreError, read, write

ROWS, BASIS = 9 * BLOCK_ROWS + 100, 24
FEW = Evidence(rows=600)  # more than those on which families are compared

SCRIPT = textwrap.dedent(
    f"""
    import json, os, sys, time
    import numpy as np
    from sklearn.gaussian_process.kernels import RBF
    from pursuit import Search, SparseGPRegressor
    import pursuit.greedy.stopping

    folder, log, where, signals = sys.argv[1:]
    signals = json.loads(signals)
    seen = 0
    pursuit.greedy.stopping.PATIENCE_SECONDS = 0.0
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, ({ROWS}, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1]
    if where == "dask":
        import dask.array
        import pursuit.rows.dask

        # Two tasks at a time, of a block each.
        pursuit.rows.dask.slots, pursuit.rows.dask._ROUNDS = lambda: 1, 2
        dask.config.set(scheduler="synchronous")
        X = dask.array.from_array(X, chunks=(5000, 2))

    def kernel(A, B):
        global seen
        if len(B) == {BASIS} and len(A) > {BASIS}:
            time.sleep(1e-5 * len(A))
            with open(log, "a") as file:
                file.write(f"{{len(A)}}\\n")
            seen += len(A)
            if signals and seen > signals[0][0]:
                os.kill(os.getpid(), signals.pop(0)[1])
        return RBF(0.7)(A, B)

    print("begun", flush=True)
    model = SparseGPRegressor(
        kernel, noise=0.1, n_basis={BASIS}, optimizer=None, certificate=None,
        search=Search(pool_size=200), checkpoint=folder or None, n_jobs=1,
        random_state=None if folder else 0,
    )
    while True:
        try:
            model.fit(X, y)
            break
        except KeyboardInterrupt:
            print("interrupted", len(model.predict(X[:9])), flush=True)
    print(json.dumps([model.dual_coef_.tolist(), model.basis_indices_.tolist()]))
    """
)


def start(folder, log, where="memory", signals=()):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(log), where, json.dumps(signals)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout.readline() == "begun\n"
    return process


def finish(process):
    answer, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return json.loads(answer)


def summed(log):
    """Rows of the pass over all rows that were computed, over all processes."""
    return sum(int(line) for line in log.read_text(encoding="utf-8").split()) if log.exists() else 0


@dataclass(frozen=True)
class Undisturbed:
    """A fit that nobody has ended: its model, rows, seconds after it began, and what it left."""

    model: list
    rows: int
    seconds: float
    checkpoint: Path
    log: Path

    def folder(self, path):
        """A folder for a fit that begins in the same way: each first run draws its own seed."""
        path.mkdir()
        shutil.copy(self.checkpoint / "begin.pursuit", path)
        return path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    folder, log = path / "folder", path / "log"
    process = start(folder, log)
    began = time.perf_counter()
    model = finish(process)
    seconds = time.perf_counter() - began
    return Undisturbed(model, summed(log), seconds, folder, log)


def test_killed_at_random_moments(tmp_path, size, undisturbed):
    rng = np.random.default_rng(0)
    for kill in range(size(1, 10)):
        folder, log = undisturbed.folder(tmp_path / f"folder{kill}"), tmp_path / f"{kill}.log"
        process = start(folder, log)
        time.sleep(rng.uniform(0.0, undisturbed.seconds))
        process.kill()
        process.communicate(timeout=60)
        assert finish(start(folder, log)) == undisturbed.model
        assert summed(log) <= undisturbed.rows + BLOCK_ROWS
        assert not list(folder.glob(".*"))


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent these signals")
def test_a_pass_on_a_cluster_is_interrupted_and_then_its_driver_is_killed(tmp_path, undisturbed):
    pytest.importorskip("dask.array", reason="dask is not installed")
    folder, log = undisturbed.folder(tmp_path / "folder"), tmp_path / "log"
    # Groups of two blocks are recorded: four blocks when the first signal is honoured, two more
    # before the second, which comes in the seventh.
    signals = [(2 * BLOCK_ROWS, signal.SIGINT), (6 * BLOCK_ROWS, signal.SIGKILL)]
    killed = start(folder, log, "dask", signals)
    told, _ = killed.communicate(timeout=60)
    assert (killed.returncode, told) == (-signal.SIGKILL, "interrupted 9\n")
    done = summed(log)
    assert finish(start(folder, log, "dask")) == undisturbed.model
    assert summed(log) == undisturbed.rows + done - 6 * BLOCK_ROWS


def test_finished_stages_and_blocks_are_not_done_again(undisturbed):
    assert finish(start(undisturbed.checkpoint, undisturbed.log)) == undisturbed.model
    assert summed(undisturbed.log) == undisturbed.rows


def waves(m=3000):
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (m, 2))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(m)


def process_of(folder, **arguments):
    given = {"kernel": RBF(1.0), "noise": 0.1, "optimizer": None, "n_basis": 16, "random_state": 0}
    return SparseGPRegressor(checkpoint=folder, **{**given, **arguments})


def test_the_model_is_that_of_a_fit_without_a_checkpoint(tmp_path):
    X, y = waves()
    learned = {"kernel": None, "noise": "learn", "optimizer": FEW, "refine": 3}
    plain = process_of(None, **learned).fit(X, y)
    for _ in range(2):
        kept = process_of(tmp_path / "folder", **learned).fit(X, y)
        for ours, theirs in zip(
            kept.predict(X[:99], return_std=True),
            plain.predict(X[:99], return_std=True),
            strict=True,
        ):
            np.testing.assert_array_equal(ours, theirs)
        assert kept.certificate_.gap == plain.certificate_.gap
        assert kept.learning_report_.moved == plain.learning_report_.moved


def test_an_unseeded_fit_keeps_the_seed_of_its_first_run(tmp_path):
    X, y = waves()
    models = [process_of(tmp_path, random_state=None).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))


def test_other_data_is_refused_with_both_fingerprints(tmp_path):
    X, y = waves()
    model = process_of(tmp_path, normalize_y=False)
    model.fit(X, y)
    begun, now = (
        " ".join(fingerprint(Sample(as_rows(X), targets[:, None], np.ones(len(y)))))
        for targets in (y, y + 1)
    )
    with pytest.raises(ValueError, match=f"other data .fingerprint {begun}.*now .{now}.: pass"):
        model.fit(X, y + 1)
    with pytest.raises(ValueError, match="was begun with other data"):
        model.fit(X + np.eye(len(X), 2), y)


def test_other_parameters_are_refused_by_name(tmp_path):
    X, y = waves()
    process_of(tmp_path).fit(X, y)
    with pytest.raises(ValueError, match=r"was begun with n_basis=16 .now 20.: set the parameters"):
        process_of(tmp_path, n_basis=20).fit(X, y)
    # These do not change what is computed.
    process_of(tmp_path, n_jobs=1, verbose=0, random_state=5).fit(X, y)


def test_every_digit_of_a_kernel_counts(tmp_path):
    X, y = waves(50)
    process_of(tmp_path, kernel=2.0 * RBF(0.50001)).fit(X, y)
    with pytest.raises(
        ValueError, match=r"'k2__length_scale': 0\.50001.*'k2__length_scale': 0\.50002"
    ):
        process_of(tmp_path, kernel=2.0 * RBF(0.50002)).fit(X, y)


def test_objects_are_known_in_another_process(tmp_path):
    class Wide:
        def __call__(self, A, B):
            return RBF(0.5)(A, B)

    X, y = waves(50)
    first, again = Wide(), Wide()  # at another address, as in another process
    expected = process_of(tmp_path, kernel=first).fit(X, y).predict(X)
    np.testing.assert_array_equal(process_of(tmp_path, kernel=again).fit(X, y).predict(X), expected)


def test_another_version_and_damage_say_what_to_do(tmp_path):
    X, y = waves(50)
    process_of(tmp_path).fit(X, y)
    begun = tmp_path / "begin.pursuit"
    header, _ = read(begun)
    write(begun, header | {"version": "0.0.9"}, {})
    with pytest.raises(ValueError, match=r"was begun by pursuit 0\.0\.9, and this is pursuit"):
        process_of(tmp_path).fit(X, y)
    begun.write_bytes(begun.read_bytes()[:-1])
    with pytest.raises(
        ValueError, match=r"truncated: .*Remove checkpoint .*or name another folder"
    ):
        process_of(tmp_path).fit(X, y)


def test_a_pass_that_a_power_cut_has_damaged_begins_again(tmp_path):
    X, y = waves()
    model = process_of(tmp_path).fit(X, y)
    expected = model.predict(X)
    for path in tmp_path.glob("pass-*"):
        path.write_bytes(path.read_bytes()[:100])
    np.testing.assert_array_equal(model.fit(X, y).predict(X), expected)


def test_an_interrupted_choice_is_not_kept_as_finished(tmp_path):
    X, y = waves()
    calls = []

    def interrupting(A, B):
        calls.append(len(B))
        if calls.count(200) == 1 and len(B) == 200:
            signal.raise_signal(signal.SIGINT)
        return RBF(0.5)(A, B)

    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
            process_of(
                tmp_path, kernel=interrupting, search=Search(pool_size=200), certificate=None
            ).fit(X, y)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert not (tmp_path / "choose.pursuit").exists()


def test_a_folder_that_cannot_be(tmp_path):
    X, y = waves(50)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match=r"checkpoint '.*file' is a file: name a folder"):
        process_of(tmp_path / "file").fit(X, y)
    with pytest.raises(ValueError, match="'checkpoint' parameter"):
        process_of(3).fit(X, y)


def test_files_name_their_kind(tmp_path):
    X, y = waves()
    process_of(tmp_path).fit(X, y)
    header, _ = read(tmp_path / "begin.pursuit")
    assert header["parameters"]["n_basis"] == "16"
    assert "random_state" not in header["parameters"]


class Estimator(BaseEstimator):
    """As little of an estimator as a checkpoint needs: it has no kernel."""

    def __init__(self, kernel_x=None, learner=None, search=None, n_terms=3):
        self.kernel_x, self.learner, self.search = kernel_x, learner, search
        self.n_terms = n_terms


def stage(checkpoint, name, compute):
    """The result of a stage as a fit has it."""
    result = checkpoint.recorded(name)
    if result is None:
        result = compute()
        checkpoint.record(name, result)
    return result


def checkpoint_of(folder, estimator, *, X=None, outputs=0, seed=0):
    X = waves(20)[0] if X is None else X
    sample = Sample(as_rows(X), np.zeros((len(X), outputs)), np.ones(len(X)))
    return Checkpoint(folder, estimator, sample, np.random.default_rng(seed), Interrupted())


def linear(A, B):
    return A @ B.T


def test_any_estimator_may_have_a_checkpoint(tmp_path):
    def draw(checkpoint):
        return stage(checkpoint, "draw", lambda: checkpoint._rng.standard_normal(5))

    first = checkpoint_of(tmp_path, Estimator())
    values, after = draw(first), first._rng.standard_normal(3)
    again = checkpoint_of(tmp_path, Estimator(), seed=1)
    recorded = stage(again, "draw", lambda: pytest.fail("the stage was done again"))
    np.testing.assert_array_equal(recorded, values)
    np.testing.assert_array_equal(again._rng.standard_normal(3), after)
    with pytest.raises(ValueError, match=r"was begun with n_terms=3 .now 4.: set the parameters"):
        checkpoint_of(tmp_path, Estimator(n_terms=4))


@pytest.mark.parametrize("outputs", [0, 1])
def test_samples_without_targets_have_fingerprints(tmp_path, outputs):
    X, _ = waves(20)
    checkpoint_of(tmp_path, Estimator(), X=X, outputs=outputs)
    checkpoint_of(tmp_path, Estimator(), X=X, outputs=outputs)
    for other in ({"X": X + 1.0, "outputs": outputs}, {"X": X, "outputs": 1 - outputs}):
        with pytest.raises(ValueError, match="was begun with other data"):
            checkpoint_of(tmp_path, Estimator(), **other)


@pytest.mark.parametrize(
    ("argument", "wrap"),
    [
        ("kernel_x", lambda function: function),
        ("learner", lambda function: function),
        ("kernel_x", lambda function: [RBF(0.5), function]),
        ("learner", lambda function: {"deep": ("a", [function])}),
        ("kernel_x", lambda function: RBF(2.0) + PairwiseKernel(metric=function)),
    ],
)
def test_functions_are_not_written_wherever_they_are(tmp_path, argument, wrap):
    def result(value):
        return {"whole": value, "parts": [linear, 3.5]}

    value = wrap(linear)
    checkpoint = checkpoint_of(tmp_path, Estimator(**{argument: value}))
    stage(checkpoint, "choose", lambda: result(value))
    again = wrap(linear)
    found = stage(checkpoint_of(tmp_path, Estimator(**{argument: again})), "choose", pytest.fail)
    assert found == result(again)
    assert found["whole"] is again
    assert found["parts"][0] is linear


def test_a_result_that_no_file_can_hold_is_named(tmp_path):
    checkpoint = checkpoint_of(tmp_path, Estimator())
    with pytest.raises(
        StoreError, match=r"stage learn\[1\] is of type Estimator.*: fit without checkpoint="
    ):
        stage(checkpoint, "learn", lambda: [1, Estimator()])


def test_searches_are_kept_and_every_number_of_them_counts(tmp_path):
    points = np.arange(4000.0).reshape(2000, 2)
    search = Search("pooled", rows=30, candidates=points)
    first = checkpoint_of(tmp_path, Estimator(search=search))
    stages = [search, Evidence(restarts=2), Search("full")]
    stage(first, "learn", lambda: stages)
    found = stage(checkpoint_of(tmp_path, Estimator(search=search)), "learn", pytest.fail)
    assert [repr(one) for one in found] == [repr(one) for one in stages]
    np.testing.assert_array_equal(found[0].candidates, points)
    other = points.copy()
    other[1000, 0] += 1e-9  # too small to see, and in rows that NumPy does not print
    with pytest.raises(ValueError, match=r"was begun with search=Search.*rows=30"):
        checkpoint_of(tmp_path, Estimator(search=Search("pooled", rows=30, candidates=other)))


def test_sums_of_a_pass_are_recorded_and_resumed(tmp_path):
    X, y = waves(20)
    sums = GramStatistics(
        gram=X.T @ X, cross=X.T @ y[:, None], target_norms=y[:1] ** 2, trace=2.5, weight=1.5,
        n_rows=20,
    )  # fmt: skip
    ledger = checkpoint_of(tmp_path, Estimator()).ledgers(X[:3], 20, np.float64, None)
    assert ledger.resume() == []
    ledger.record([sums, sums])
    for found in ledger.resume():
        np.testing.assert_array_equal(found.gram, sums.gram)
        np.testing.assert_array_equal(found.cross, sums.cross)
        assert (found.trace, found.weight, found.n_rows) == (sums.trace, sums.weight, sums.n_rows)
    assert len(ledger.resume()) == 2


def power(degree):
    def kernel(A, B):
        return (A @ B.T + 1.0) ** degree

    return kernel


def test_another_function_of_the_same_name_is_refused(tmp_path):
    X, y = waves()
    process_of(tmp_path, kernel=power(1)).fit(X, y)
    process_of(tmp_path, kernel=power(1)).fit(X, y)
    with pytest.raises(ValueError, match="was begun with kernel=power"):
        process_of(tmp_path, kernel=power(2)).fit(X, y)
    other = tmp_path / "lambda"
    process_of(other, kernel=lambda A, B: A @ B.T + 1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"was begun with kernel=.*lambda"):
        process_of(other, kernel=lambda A, B: A @ B.T + 2.0).fit(X, y)


def test_any_other_row_in_memory_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2))
    y = np.sin(X[:, 0])
    model = process_of(tmp_path, n_basis=5).fit(X, y)
    model.fit(X, y)
    for row in rng.integers(0, 3000, 5):
        changed = X.copy()
        changed[row, 1] += 1e-9
        with pytest.raises(ValueError, match="was begun with other data"):
            model.fit(changed, y)


def test_any_other_row_is_refused_wherever_rows_lie(tmp_path):
    """A fit that was begun with rows in memory goes on with the same rows elsewhere."""
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    X, y = waves(4000)
    file, folder = tmp_path / "X.npy", tmp_path / "folder"
    model = process_of(folder, n_basis=5, certificate=None).fit(X, y)
    expected = model.predict(X[:9])
    changed = X.copy()
    changed[1234, 1] = np.nextafter(X[1234, 1], 9.0)  # not one of a thousand rows at equal steps
    for rows, is_same in ((X, True), (changed, False)):
        np.save(file, rows)
        for source in (rows, file, da.from_array(rows, chunks=(1500, 2))):
            if is_same:
                np.testing.assert_array_equal(model.fit(source, y).predict(X[:9]), expected)
            else:
                with pytest.raises(ValueError, match="was begun with other data"):
                    model.fit(source, y)


@pytest.mark.parametrize("learned", [True, False])
def test_what_time_has_cut_short_is_done_again(tmp_path, learned):
    X, y = waves()
    options = (
        {"optimizer": FEW} if learned else {"kernel": RBF(0.7), "noise": 0.1, "optimizer": None}
    )
    options |= {"n_basis": 20, "random_state": 0, "certificate": None}
    whole = SparseGPRegressor(**options).fit(X, y)
    SparseGPRegressor(max_time=1e-9, checkpoint=tmp_path, **options).fit(X, y)
    resumed = SparseGPRegressor(checkpoint=tmp_path, **options).fit(X, y)
    np.testing.assert_array_equal(resumed.dual_coef_, whole.dual_coef_)

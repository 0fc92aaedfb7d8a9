"""A killed fit goes on where it was, to the identical model."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from pursuit import SparseGPRegressor
from pursuit.estimators.checkpoint import fingerprint
from pursuit.rows import BLOCK_ROWS, Sample, as_rows
from pursuit.store import read

ROWS, BASIS = 9 * BLOCK_ROWS + 100, 24

SCRIPT = textwrap.dedent(
    f"""
    import json, os, sys, time
    import numpy as np
    from sklearn.gaussian_process.kernels import RBF
    from pursuit import SparseGPRegressor

    folder, log = sys.argv[1:]
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, ({ROWS}, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1]

    def kernel(A, B):
        if len(B) == {BASIS} and len(A) > {BASIS}:
            time.sleep(2e-5 * len(A))
            with open(log, "a") as file:
                file.write(f"{{len(A)}}\\n")
        return RBF(0.7)(A, B)

    print("begun", flush=True)
    model = SparseGPRegressor(
        kernel, noise=0.1, n_basis={BASIS}, optimizer=None, certificate=None,
        pool_size=200, checkpoint=folder or None, n_jobs=1, random_state=None if folder else 0,
    ).fit(X, y)
    print(json.dumps([model.dual_coef_.tolist(), model.basis_indices_.tolist()]))
    """
)


def start(folder, log):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(log)],
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
    return sum(int(line) for line in log.read_text().split()) if log.exists() else 0


def test_killed_at_random_moments(tmp_path, size):
    rng = np.random.default_rng(0)
    began = time.perf_counter()
    folder, log = tmp_path / "whole", tmp_path / "whole.log"
    whole = finish(start(folder, log))
    seconds = time.perf_counter() - began
    undisturbed = summed(log)
    # The first run of every folder draws its own seed: all of them continue from a copy of one.
    seed = (folder / "begin.pursuit").read_bytes()
    for kill in range(size(3, 20)):
        folder, log = tmp_path / f"folder{kill}", tmp_path / f"{kill}.log"
        folder.mkdir()
        (folder / "begin.pursuit").write_bytes(seed)
        process = start(folder, log)
        time.sleep(rng.uniform(0.0, seconds))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert finish(start(folder, log)) == whole
        assert summed(log) <= undisturbed + BLOCK_ROWS
        assert not list(folder.glob(".*"))


def test_finished_stages_and_blocks_are_not_done_again(tmp_path):
    folder, log = tmp_path / "folder", tmp_path / "log"
    first = finish(start(folder, log))
    once = summed(log)
    assert finish(start(folder, log)) == first
    assert summed(log) == once


def waves(m=3000):
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (m, 2))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(m)


def process_of(folder, **arguments):
    given = {"kernel": RBF(1.0), "noise": 0.1, "optimizer": None, "n_basis": 16, "random_state": 0}
    return SparseGPRegressor(checkpoint=folder, **{**given, **arguments})


def test_the_model_is_that_of_a_fit_without_a_checkpoint(tmp_path):
    X, y = waves()
    learned = {"kernel": None, "noise": "learn", "optimizer": "evidence", "refine": 3}
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
        fingerprint(Sample(as_rows(X), targets[:, None], np.ones(len(y)))) for targets in (y, y + 1)
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
            os.kill(os.getpid(), signal.SIGINT)
        return RBF(0.5)(A, B)

    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
            process_of(tmp_path, kernel=interrupting, pool_size=200, certificate=None).fit(X, y)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert not (tmp_path / "choose.pursuit").exists()


def test_a_folder_that_cannot_be(tmp_path):
    X, y = waves(50)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        process_of(tmp_path / "file").fit(X, y)
    with pytest.raises(ValueError, match="'checkpoint' parameter"):
        process_of(3).fit(X, y)


def test_files_name_their_kind(tmp_path):
    X, y = waves()
    process_of(tmp_path).fit(X, y)
    header, _ = read(tmp_path / "begin.pursuit")
    assert header["parameters"]["n_basis"] == "16"
    assert "random_state" not in header["parameters"]

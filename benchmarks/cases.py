"""What is measured: one function per case, which returns its figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from benchmarks.before_cases import before
from benchmarks.category_cases import categories
from benchmarks.certificate_cases import certificate_kinds
from benchmarks.classifier_cases import gp_classifier
from benchmarks.compare_cases import compare_tables
from benchmarks.component_cases import components, denoising, novelty
from benchmarks.conformal_cases import conformal
from benchmarks.dask_cases import dask_pass
from benchmarks.data import friedman, kin40k, protein, robot_arm
from benchmarks.draw_cases import sample_functions
from benchmarks.evidence_cases import evidence_speed
from benchmarks.exact_cases import exact_distance_case, exact_gp_case
from benchmarks.few_rows_cases import few_rows_classes, few_rows_coverage
from benchmarks.file_cases import flight_delays, parquet
from benchmarks.full_scale_cases import (
    full_scale_classes,
    full_scale_controls,
    full_scale_elsewhere,
    full_scale_kin40k,
    full_scale_memory,
    full_scale_protein,
    full_scale_roads,
    full_scale_threads,
    full_scale_time,
)
from benchmarks.glm_cases import glm_counts, glm_outliers, glm_quantiles
from benchmarks.harness import Figure, Measured, best_seconds, measure_solvers, traced_peak
from benchmarks.hull_cases import (
    hull_boosting,
    hull_boosting_speed,
    hull_lasso,
    hull_mixture,
    hull_mixture_bic,
)
from benchmarks.kernel_search_cases import kernel_search
from benchmarks.landmark_cases import landmarks, landmarks_elsewhere, pipeline
from benchmarks.learning_cases import evidence, large, learned, moving, time_limit, wide
from benchmarks.lp_cases import lp_machine
from benchmarks.matching_cases import matching_omp, matching_size
from benchmarks.million_cases import million
from benchmarks.moving_over_cases import moving_over
from benchmarks.neighbor_cases import neighbors_strings, neighbors_usps
from benchmarks.noise_cases import outliers, varying_noise
from benchmarks.precision_cases import precision
from benchmarks.predict_cases import predict
from benchmarks.profile_cases import profile
from benchmarks.ridge_cases import kappa
from benchmarks.small_fit_cases import small_fits, stage_shares
from benchmarks.solvers import Solver, nystroem_ridge, sparse_gp, subset_gp
from benchmarks.startup_cases import startup
from benchmarks.svm_cases import (
    svm_certificate,
    svm_default,
    svm_memory,
    svm_speed,
    svm_synthetic,
    svm_usps,
)
from pursuit import SparseGPRegressor
from pursuit.gram import gram_statistics
from pursuit.greedy import CostMeter, MaxSize, Pursuit
from pursuit.kernels import CountingKernel, compile_kernel
from pursuit.linalg import Workers
from pursuit.objectives import QuadraticPursuit
from pursuit.rows import BLOCK_ROWS, ArrayRows, Sample

Case = Callable[[bool, int], list[Figure]]
"""`case(quick, repeat)`: quick runs are for development; their targets mean nothing."""

MEGABYTE = 2.0**20

KIN40K_LENGTH_SCALES = np.array([2.93, 2.77, 1.58, 1.75, 1.71, 1.35, 1.35, 2.03])
KIN40K_NOISE = 0.0057
PROTEIN_NOISE = 0.3


def statistics_pass(quick: bool, repeat: int) -> list[Figure]:
    """One pass of Gram statistics, kernel included, over the bare product K'K of its size.

    With as many points as a pool has, and with as many as a basis has.
    """
    sizes = ((6000, 500), (6000, 100)) if quick else ((36_000, 2000), (200_000, 512))
    return [
        figure.renamed(f"{P} points: {figure.name}")
        for m, P in sizes
        for figure in _one_pass(m, P, repeat)
    ]


def _one_pass(m: int, P: int, repeat: int) -> list[Figure]:
    d = 8
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, d))
    sample = Sample(ArrayRows(X), rng.standard_normal((m, 1)), np.ones(m))
    kernel, _ = compile_kernel(RBF(2.0), n_features=d)
    points = X[:P].copy()
    K = rng.random((min(BLOCK_ROWS, m), P))

    def bare_product() -> None:
        for start in range(0, m, BLOCK_ROWS):
            block = K[: m - start]
            block.T @ block

    def our_pass(dtype: type) -> None:
        with Workers() as workers:
            gram_statistics(sample, kernel, points, workers=workers, dtype=dtype)

    best = best_seconds(
        {
            "product": bare_product,
            "float64": lambda: our_pass(np.float64),
            "float32": lambda: our_pass(np.float32),
        },
        repeat,
    )
    return [
        Figure("K'K on stored blocks, float64", best["product"], "s"),
        Figure("pass with float64 tiles", best["float64"], "s"),
        Figure("pass with float32 tiles", best["float32"], "s"),
        Figure(
            "float64 pass / K'K",
            best["float64"] / best["product"],
            "x",
            at_most=1.1 if P > 1000 else 1.3,
        ),
        Figure(
            "float32 pass / K'K",
            best["float32"] / best["product"],
            "x",
            at_most=0.65 if P > 1000 else 0.7,
        ),
    ]


def choice(quick: bool, repeat: int) -> list[Figure]:
    """Choosing n of P candidates from their Gram matrix, over one P x P x P product."""
    P, n = (1024, 256) if quick else (4096, 1024)
    rng = np.random.default_rng(0)
    F = rng.standard_normal((P, P)) * np.exp(-np.arange(P) / (P / 10))
    H = F @ F.T + 0.01 * np.eye(P)
    b = rng.standard_normal((P, 1))
    kernel, _ = compile_kernel(RBF())

    def choose() -> None:
        with Workers() as workers:
            objective = QuadraticPursuit(np.diag(H), b, H.copy(), capacity=n, workers=workers)
            path = Pursuit(objective, CostMeter(CountingKernel(kernel))).run([MaxSize(n)])
        if len(path) != n:
            raise RuntimeError(f"chose {len(path)} of {n}: {path.stop_reason}")

    best = best_seconds({"product": lambda: H @ F, "choice": choose}, repeat)
    return [
        Figure(f"product of two {P} x {P} matrices", best["product"], "s"),
        Figure(f"choosing {n} of {P}", best["choice"], "s"),
        Figure("choice / product", best["choice"] / best["product"], "x", at_most=0.6),
    ]


def kin40k_nystroem(quick: bool, repeat: int) -> list[Figure]:
    """Fit, predict and test error beside Nystroem + Ridge of more components, kernel fixed."""
    data = kin40k()
    small, small_peer, large, large_peer = (64, 96, 128, 192) if quick else (1024, 1536, 2048, 3000)
    scales, noise = KIN40K_LENGTH_SCALES, KIN40K_NOISE
    results = measure_solvers(
        data,
        [
            ours := sparse_gp(small, scales, noise),
            peer := nystroem_ridge(small_peer, scales, noise),
            ours_large := sparse_gp(large, scales, noise),
            peer_large := nystroem_ridge(large_peer, scales, noise),
            subset_gp(200 if quick else 2000, scales, noise),
        ],
        repeat,
    )
    return [
        *_solver_figures(results),
        *_against(results, ours, peer, rmse=1.0),
        *_against(results, ours_large, peer_large, rmse=1.0, predict=3.0),
    ]


def protein_nystroem(quick: bool, repeat: int) -> list[Figure]:
    """The same on protein, with the plain default width: no targets."""
    data = protein()
    d = data.X_train.shape[1]
    scales = np.full(d, np.sqrt(d / 2))
    sizes = (64, 96) if quick else (1024, 1536)
    return _solver_figures(
        measure_solvers(
            data,
            [
                sparse_gp(sizes[0], scales, PROTEIN_NOISE),
                nystroem_ridge(sizes[1], scales, PROTEIN_NOISE),
                subset_gp(200 if quick else 2000, scales, PROTEIN_NOISE),
            ],
            repeat,
        )
    )


def memory(quick: bool, repeat: int) -> list[Figure]:
    """Peak memory that a fit adds, in a fresh process: a copy of the data, 6 P² doubles, 200 MB."""
    m, n_basis = (50_000, 64) if quick else (1_000_000, 524)
    P = 2 * n_basis + 1000
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.peak_memory", str(m), str(n_basis)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    measured = json.loads(run.stdout)
    allowed = measured["data"] + 6 * P**2 * 8 + 200 * MEGABYTE
    return [
        Figure("data", measured["data"] / MEGABYTE, "MB"),
        Figure(
            f"added by a fit, P={P}",
            measured["added"] / MEGABYTE,
            "MB",
            at_most=allowed / MEGABYTE,
        ),
    ]


def scaling(quick: bool, repeat: int) -> list[Figure]:
    """Fit time at twice the rows."""
    half, n_basis = (20_000, 64) if quick else (500_000, 524)
    X, y = robot_arm(2 * half)
    solver = sparse_gp(n_basis, np.ones(X.shape[1]), noise=0.01)
    best = best_seconds(
        {
            "half": lambda: solver.make(n_basis).fit(X[:half], y[:half]),
            "all": lambda: solver.make(n_basis).fit(X, y),
        },
        repeat,
    )
    return [
        Figure(f"fit, m={half}", best["half"], "s"),
        Figure(f"fit, m={2 * half}", best["all"], "s"),
        Figure("ratio", best["all"] / best["half"], "x", at_most=2.15),
    ]


def certify(quick: bool, repeat: int) -> list[Figure]:
    """Certificates of a fitted model: time over its fit, memory per row, gain of five steps."""
    data = kin40k()
    rows = slice(4000 if quick else None)
    X, y = data.X_train[rows], data.y_train[rows]
    solver = sparse_gp(64 if quick else 1024, KIN40K_LENGTH_SCALES, KIN40K_NOISE)
    model = solver.make(solver.size).fit(X, y)
    found = {}

    def improve() -> None:
        found["pcg"] = model.certify(X, y, kind="pcg", steps=5)

    def hybrid() -> None:
        found["hybrid"] = model.certify(X, y, kind="hybrid")

    best = best_seconds(
        {
            "fit": lambda: solver.make(solver.size).fit(X, y),
            "hybrid": hybrid,
            "pcg": improve,
        },
        repeat,
    )
    added = traced_peak(hybrid)
    return [
        Figure(f"{solver.name}: fit", best["fit"], "s"),
        Figure("certify, hybrid", best["hybrid"], "s"),
        Figure("certify, pcg of 5 steps", best["pcg"], "s"),
        Figure("hybrid / fit", best["hybrid"] / best["fit"], "x", at_most=1.5),
        Figure("pcg / fit", best["pcg"] / best["fit"], "x"),
        Figure("memory added by hybrid", added / MEGABYTE, "MB"),
        Figure("memory added by hybrid, a row", added / 8 / len(X), "doubles"),
        Figure("hybrid: gap", found["hybrid"].gap),
        Figure("hybrid: gap at least", found["hybrid"].gap_at_least),
        Figure("pcg: gap", found["pcg"].gap),
        Figure("pcg: gap at least", found["pcg"].gap_at_least),
        Figure("hybrid gap / pcg gap", found["hybrid"].gap / found["pcg"].gap, "x", at_least=5.0),
    ]


def certify_default(quick: bool, repeat: int) -> list[Figure]:
    """The automatic certificate: its share of a fit that learns all, its gap beside the published.

    Shares are of the wall-clock time that the fit reports for its stages.
    """
    size, many = (64, 12_000) if quick else (512, 400_000)
    sets = {
        "kin40k": (kin40k().X_train, kin40k().y_train, 0.15),
        "protein": (protein().X_train, protein().y_train, 0.15),
        "friedman": (*friedman(many), 0.25),
    }
    figures = []
    for name, (X, y, most) in sets.items():
        rows = slice(12_000 if quick else None)
        shares, found, model = [], None, None
        for _ in range(repeat):
            model = SparseGPRegressor(n_basis=size, random_state=0).fit(X[rows], y[rows])
            seconds = model.learning_report_.seconds
            shares.append(seconds["certify"] / sum(seconds.values()))
            found = model.certificate_
        assert model is not None
        assert found is not None
        published = model.certify(X[rows], y[rows], kind="published")
        limit = {"at_least": 2.0} if name == "friedman" else {}
        figures += [
            Figure(f"{name}, {found.kind}: share of the fit", min(shares), "x", at_most=most),
            Figure(f"{name}: gap", found.gap),
            Figure(f"{name}: published gap / gap", published.gap / found.gap, "x", **limit),
        ]
    return figures


CASES: dict[str, Case] = {
    "pass": statistics_pass,
    "precision": precision,
    "compare-tables": compare_tables,
    "startup": startup,
    "profile": profile,
    "choice": choice,
    "predict": predict,
    "kin40k-nystroem": kin40k_nystroem,
    "protein-nystroem": protein_nystroem,
    "small-fits": small_fits,
    "stage-shares": stage_shares,
    "certify": certify,
    "certify-default": certify_default,
    "certificate-kinds": certificate_kinds,
    "memory": memory,
    "scaling": scaling,
    "evidence": evidence,
    "evidence-speed": evidence_speed,
    "learned": learned,
    "learned-wide": wide,
    "moving": moving,
    "large": large,
    "categories": categories,
    "conformal": conformal,
    "varying-noise": varying_noise,
    "outliers": outliers,
    "time-limit": time_limit,
    "kernel-search": kernel_search,
    "sample-functions": sample_functions,
    "full-scale-kin40k": full_scale_kin40k,
    "full-scale-protein": full_scale_protein,
    "full-scale-time": full_scale_time,
    "full-scale-roads": full_scale_roads,
    "full-scale-memory": full_scale_memory,
    "full-scale-controls": full_scale_controls,
    "full-scale-threads": full_scale_threads,
    "full-scale-classes": full_scale_classes,
    "full-scale-elsewhere": full_scale_elsewhere,
    "landmarks": landmarks,
    "landmarks-elsewhere": landmarks_elsewhere,
    "pipeline": pipeline,
    "moving-over": moving_over,
    "kappa": kappa,
    "exact-gp": exact_gp_case,
    "before": before,
    "exact-distance": exact_distance_case,
    "neighbors-usps": neighbors_usps,
    "neighbors-strings": neighbors_strings,
    "matching-omp": matching_omp,
    "matching-size": matching_size,
    "components": components,
    "novelty": novelty,
    "denoising": denoising,
    "hull-lasso": hull_lasso,
    "hull-boosting": hull_boosting,
    "hull-boosting-speed": hull_boosting_speed,
    "hull-mixture": hull_mixture,
    "hull-mixture-bic": hull_mixture_bic,
    "few-rows": few_rows_coverage,
    "few-rows-classes": few_rows_classes,
    "gp-classifier": gp_classifier,
    "counts": glm_counts,
    "quantiles": glm_quantiles,
    "outliers-huber": glm_outliers,
    "lp-machine": lp_machine,
    "dask": dask_pass,
    "svm-default": svm_default,
    "svm-speed": svm_speed,
    "svm-synthetic": svm_synthetic,
    "svm-certificate": svm_certificate,
    "svm-usps": svm_usps,
    "svm-memory": svm_memory,
    "parquet": parquet,
    "million": million,
    "flights": flight_delays,
}


def _solver_figures(results: dict[str, Measured]) -> list[Figure]:
    figures = []
    for name, measured in results.items():
        figures += [
            Figure(f"{name}: fit", measured.fit, "s"),
            Figure(f"{name}: predict", measured.predict, "s"),
            Figure(f"{name}: RMSE", measured.rmse),
        ]
    return figures


def _against(
    results: dict[str, Measured],
    ours: Solver,
    peer: Solver,
    *,
    rmse: float,
    predict: float | None = None,
) -> list[Figure]:
    """Ratios to the peer: at most `rmse` times its error, a quarter of its fit time."""
    mine, theirs = results[ours.name], results[peer.name]
    pair = f"{ours.name} / {peer.name}"
    figures = [
        Figure(f"{pair}: RMSE", mine.rmse / theirs.rmse, "x", at_most=rmse),
        Figure(f"{pair}: fit", mine.fit / theirs.fit, "x", at_most=0.25),
    ]
    if predict is not None:
        faster = theirs.predict / mine.predict
        figures.append(Figure(f"{pair}: times faster to predict", faster, "x", at_least=predict))
    return figures

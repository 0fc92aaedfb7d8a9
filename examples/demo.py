"""Fit a sparse Gaussian process to 100 000 rows, beside scikit-learn, and write a report.

``make demo`` runs this. It makes its own data, needs no network, and writes ``demo_report.html``
into the current directory.
"""

from __future__ import annotations

import html
import io
import platform
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import matplotlib
import numpy as np
import sklearn
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score, root_mean_squared_error
from sklearn.pipeline import make_pipeline

import pursuit
from pursuit import PathDisplay, SparseGPRegressor
from pursuit.datasets import make_robot_arm

Floats = NDArray[np.float64]

N_TRAIN, N_TEST = 100_000, 10_000
N_BASIS = 512
REPORT = Path("demo_report.html")
INK, GRID, BLUE = "#123456", "#abcdef", "#0072b2"
"""Colours that the page replaces by its own, which follow light and dark mode."""


@dataclass(frozen=True)
class Result:
    """One line of the comparison."""

    name: str
    size: int
    fit_seconds: float
    predict_seconds: float
    rmse: float
    r2: float

    def cells(self) -> list[str]:
        return [
            self.name,
            str(self.size),
            f"{self.fit_seconds:.1f}",
            f"{self.predict_seconds:.3f}",
            f"{self.rmse:.4f}",
            f"{self.r2:.4f}",
        ]


HEADINGS = ["model", "basis", "fit, s", "predict, s", "RMSE, m", "R²"]


def main() -> None:
    arm = make_robot_arm(N_TRAIN + N_TEST, random_state=0)
    X, X_test = arm.data[:N_TRAIN], arm.data[N_TRAIN:]
    y, y_test = arm.target[:N_TRAIN], arm.target[N_TRAIN:]
    print(f"A simulated robot arm: {N_TRAIN} rows, {X.shape[1]} joint angles, {N_TEST} test rows.")

    model = SparseGPRegressor(n_basis=N_BASIS, random_state=0)
    show_progress(model)
    results = [measure("pursuit", model, N_BASIS, X, y, X_test, y_test)]
    print(f"\n{model.learning_report_}\n")
    chosen = SparseGPRegressor(
        model.kernel_,
        noise=model.noise_,
        n_basis=N_BASIS,
        optimizer=None,
        certificate=None,
        random_state=0,
    )
    results.append(measure("pursuit, kernel given", chosen, N_BASIS, X, y, X_test, y_test))
    for size in (N_BASIS, 2 * N_BASIS):
        peer = nystroem_ridge(size, model)
        results.append(measure("Nystroem + Ridge, kernel given", peer, size, X, y, X_test, y_test))

    mean, std = model.predict(X_test, return_std=True)
    covered = float(np.mean(np.abs(y_test - mean) <= 1.96 * std))
    print(f"\n{text_table(results)}\n")
    print(f"95 % intervals cover {percent(covered)} of the test rows.")
    print(certificate_sentence(model))
    print(f"({model.certificate_})")
    REPORT.write_text(report(model, results, covered, y_test, mean), encoding="utf-8")
    print(f"Report written to {REPORT}.")


def show_progress(model: SparseGPRegressor) -> None:
    """A progress bar where scikit-learn has one, a line a stage elsewhere."""
    try:
        from sklearn.callback import ProgressBar

        model.set_callbacks(ProgressBar())
    except ImportError:
        model.set_params(verbose=1)


def nystroem_ridge(size: int, model: SparseGPRegressor) -> Any:
    """scikit-learn's model with the kernel and noise that ours has found, and random rows."""
    return make_pipeline(
        Nystroem(kernel=model.kernel_, n_components=size, random_state=0),
        Ridge(alpha=model.noise_),
    )


def measure(
    name: str, model: Any, size: int, X: Floats, y: Floats, X_test: Floats, y_test: Floats
) -> Result:
    start = perf_counter()
    model.fit(X, y)
    fitted = perf_counter()
    mean = model.predict(X_test)
    predicted = perf_counter()
    return Result(
        name,
        size,
        fitted - start,
        predicted - fitted,
        root_mean_squared_error(y_test, mean),
        r2_score(y_test, mean),
    )


def certificate_sentence(model: SparseGPRegressor) -> str:
    """The relative gap g in words: ½y'y - P(f) is at least (1 - g) of the most it can be."""
    reached = 1.0 - model.certificate_.relative_gap
    return (
        f"With this kernel and noise the model provably brings {percent(reached)} or more of what "
        "any function can take off the objective, the Gaussian process on all rows included."
    )


def percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def text_table(results: list[Result]) -> str:
    rows = [HEADINGS] + [result.cells() for result in results]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


# The report


def report(
    model: SparseGPRegressor,
    results: list[Result],
    covered: float,
    actual: Floats,
    predicted: Floats,
) -> str:
    ours = results[0]
    tiles = {
        "rows": f"{N_TRAIN:,}".replace(",", " "),
        "basis functions": str(model.n_basis_),
        "seconds to fit": f"{ours.fit_seconds:.1f}",
        "R² on test rows": f"{ours.r2:.3f}",
        "coverage at 95 %": percent(covered),
        "relative gap": percent(model.certificate_.relative_gap),
    }
    return PAGE.format(
        tiles="".join(f"<li><b>{value}</b>{name}</li>" for name, value in tiles.items()),
        head="".join(f"<th>{heading}</th>" for heading in HEADINGS),
        body="".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in result.cells()) + "</tr>"
            for result in results
        ),
        sentence=html.escape(certificate_sentence(model)),
        certificate=html.escape(str(model.certificate_)),
        path=path_figure(model),
        scatter=prediction_figure(actual, predicted),
        kernel=html.escape(str(model.kernel_)),
        learning=html.escape(str(model.learning_report_)),
        versions=(
            f"pursuit {pursuit.__version__}, scikit-learn {sklearn.__version__}, "
            f"NumPy {np.__version__}, Python {platform.python_version()}, {platform.machine()}"
        ),
    )


def path_figure(model: SparseGPRegressor) -> str:
    figure, axes = new_figure()
    PathDisplay.from_estimator(model, ax=axes, color=BLUE, linewidth=2)
    axes.grid(color=GRID)
    axes.set_ylabel("Objective P(f)")
    return as_svg(figure)


def prediction_figure(actual: Floats, predicted: Floats) -> str:
    figure, axes = new_figure()
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    # A picture inside the drawing: ten thousand vector points would make a slow page.
    axes.plot(predicted, actual, ".", color=BLUE, markersize=3, alpha=0.25, mew=0, rasterized=True)
    ends = [actual.min(), actual.max()]
    axes.plot(ends, ends, color="#D55E00", linewidth=1.5)
    axes.set_aspect("equal")
    axes.set_xlabel("Predicted distance (m)")
    axes.set_ylabel("Measured distance (m)")
    return as_svg(figure)


def new_figure() -> tuple[Figure, Any]:
    ink = dict.fromkeys(
        ["axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "text.color"], INK
    )
    with matplotlib.rc_context(ink):
        figure = Figure(figsize=(5.2, 4.2), dpi=150, layout="constrained")
        return figure, figure.subplots()


def as_svg(figure: Figure) -> str:
    """Inline SVG whose ink and grid are those of the page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True)
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    for colour, of_page in {INK: "currentColor", GRID: "var(--line)", BLUE: "var(--blue)"}.items():
        drawing = drawing.replace(colour, of_page)
    return drawing


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>pursuit: demo report</title>
<style>
:root {{ --paper: #ffffff; --ink: #1c2733; --soft: #5b6876; --line: #dfe4ea; --tint: #f3f7fa;
  --blue: #0072b2; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --paper: #12181f; --ink: #e4e9ee; --soft: #9aa7b4; --line: #303b47; --tint: #1b242e;
    --blue: #56b4e9; }} }}
body {{ margin: 0 auto; max-width: 62rem; padding: 2.5rem 1.25rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }}
h1 {{ margin: 0; font-size: 1.7rem; }}
h2 {{ margin: 2.5rem 0 .5rem; font-size: 1.15rem; }}
p {{ max-width: 46rem; }}
.soft, figcaption, footer {{ color: var(--soft); font-size: .9rem; }}
.tiles {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .75rem;
  margin: 1.75rem 0 0; padding: 0; list-style: none; }}
.tiles li {{ background: var(--tint); border-radius: .5rem; padding: .8rem 1rem;
  color: var(--soft); font-size: .85rem; }}
.tiles b {{ display: block; color: var(--blue); font-size: 1.45rem; line-height: 1.3;
  white-space: nowrap; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .5rem .75rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }}
th {{ color: var(--soft); font-weight: 500; font-size: .9rem; }}
th:first-child, td:first-child {{ text-align: left; }}
tbody tr:first-child {{ font-weight: 600; background: var(--tint); }}
.figures {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr));
  gap: 1.5rem; }}
figure {{ margin: 0; }}
figure svg {{ width: 100%; height: auto; fill: currentColor; }}
pre {{ background: var(--tint); border-radius: .5rem; padding: 1rem; margin: 0;
  font-size: .8rem; white-space: pre-wrap; }}
code {{ overflow-wrap: anywhere; font-size: .9em; }}
footer {{ margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }}
</style>
</head>
<body>
<h1>A robot arm, learned by a sparse Gaussian process</h1>
<p class="soft">From eight joint angles to the distance of the hand from a fixed point, simulated
with 1 cm of noise.</p>
<ul class="tiles">{tiles}</ul>

<h2>Beside scikit-learn</h2>
<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>
<p class="soft">One run each, on the same rows. The first model finds its kernel and noise, chooses
its basis, moves it, calibrates its error bars and certifies itself; the others are given that
kernel and noise. Nystroem takes its basis at random, <code>pursuit</code> chooses.</p>

<h2>How far from the full model</h2>
<p>{sentence}</p>
<p class="soft">{certificate}.</p>

<h2>What was learned</h2>
<div class="scroll"><pre>{learning}</pre></div>

<h2>What the basis functions brought</h2>
<div class="figures">
<figure>{path}<figcaption>The objective, in normalised units, after each basis
function.</figcaption></figure>
<figure>{scatter}<figcaption>Test rows: the closer to the line, the better.</figcaption></figure>
</div>

<footer>Kernel: <code>{kernel}</code>.<br>
{versions}.</footer>
</body>
</html>
"""

if __name__ == "__main__":
    main()

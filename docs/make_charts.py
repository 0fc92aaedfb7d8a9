"""Draw the charts of the site: images/choose.svg and images/rooms.svg.

Run from the root of the repository: ``python docs/make_charts.py``. Both are put into their pages
as they are, so that colours follow the theme and boxes are links. The rooms are read from the
import contract in pyproject.toml.
"""

import re
import tomllib
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent

# Goal, and for each wish the classes that meet it.
CHOICES = {
    "Numbers": [
        ("accuracy first, with error bars", ["FullScaleGPRegressor"]),
        ("small and fast, with error bars", ["SparseGPRegressor"]),
        ("no approximation, to 50 000 rows", ["ExactGPRegressor"]),
        ("counts, amounts, quantiles, outliers", ["SparseKernelGLM"]),
        ("kernel ridge: alpha is known", ["SparseKernelRidge"]),
        ("errors below ε do not count", ["LowRankSVR"]),
        ("as few functions as can be", ["LPMachineRegressor"]),
        ("a size that a bound advises", ["KernelMatchingPursuitRegressor"]),
        ("the Lasso, on features or kernels", ["HullRegressor"]),
    ],
    "Classes": [
        ("probabilities", ["SparseGPClassifier"]),
        ("probabilities, with near rows", ["FullScaleGPClassifier"]),
        ("a support vector machine of many rows", ["LowRankSVC"]),
        ("as few functions as can be", ["LPMachineClassifier"]),
        ("a size that a bound advises", ["KernelMatchingPursuitClassifier"]),
        ("boosting, with some labels wrong", ["HullBoostClassifier"]),
    ],
    "No targets": [
        ("features for a linear model, low rank", ["GreedyFeatureMap"]),
        ("components, denoising", ["SparseKernelPCA"]),
        ("what two views have in common", ["SparseKernelCCA"]),
        ("rows unlike all others", ["LowRankOneClassSVM"]),
        ("a density, in clusters", ["HullMixture"]),
        ("the nearest rows, by any kernel", ["SpanNeighbors"]),
    ],
}

ROOMS = {
    "testing": "checks for new parts",
    "cli": "the pursuit command",
    "papers": "tables and figures, run again",
    "estimators": "scikit-learn's conventions",
    "tuning": "hyper-parameters, calibration",
    "solvers": "basis fixed, the rest solved",
    "greedy": "the one loop: pool, pick, stop",
    "objectives": "what shrinks at a step",
    "gram": "a pass over rows gives small matrices",
    "kernels": "tiles",
    "rows": "data",
    "linalg": "factors",
    "bounds": "proofs",
    "store": "files",
    "plots": "pictures",
    "datasets": "examples",
    "metrics": "scores of distributions",
    "rounding": "bounds on errors",
    "limits": "sizes of work",
    "_sklearn": "private names",
    "_types": "array types",
    "printed": "names",
}


# Inside a page the theme's colours are used; opened alone, a chart has those of a light page.
STYLE = """<style>
svg.chart { font-family: var(--pst-font-family-base, system-ui, sans-serif); }
svg.chart { background: var(--pst-color-background, #ffffff); }
svg.chart text { fill: var(--pst-color-text-base, #222222); font-size: 13px; }
svg.chart .note { fill: var(--pst-color-text-muted, #555555); font-size: 12px; }
svg.chart .strong { font-weight: 600; }
svg.chart rect { fill: var(--pst-color-surface, #f5f6f8); }
svg.chart rect, svg.chart .line { stroke: var(--pst-color-border, #b8bec6); }
svg.chart .line { fill: none; stroke-width: 1.5; }
svg.chart .arrow { fill: var(--pst-color-text-muted, #555555); }
svg.chart a { text-decoration: none; }
svg.chart a text { fill: var(--pst-color-link, #0a5c8c); font-weight: 600; }
</style>"""


def svg(width, height, label, parts):
    return "\n".join(
        [
            f'<svg class="chart" viewBox="0 0 {width} {height}" role="group" '
            f'aria-label="{escape(label)}" xmlns="http://www.w3.org/2000/svg">',
            STYLE,
            *parts,
            "</svg>\n",
        ]
    )


def box(x, y, width, height, text, kind="strong", href=None, below=None):
    middle, at = x + width / 2, y + height / 2 + (4.5 if below is None else -3)
    drawn = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'
    drawn += f'<text class="{kind}" x="{middle:g}" y="{at:g}" text-anchor="middle">'
    drawn += f"{escape(text)}</text>"
    if below is not None:
        drawn += f'<text class="note" x="{middle:g}" y="{at + 17:g}" text-anchor="middle">'
        drawn += f"{escape(below)}</text>"
    return f'<a href="{href}">{drawn}</a>' if href else drawn


def branch(x0, y0, x1, y1):
    bend = (x0 + x1) / 2
    return f'<path class="line" d="M{x0} {y0:g}C{bend:g} {y0:g} {bend:g} {y1:g} {x1} {y1:g}"/>'


def choose():
    """A tree from left to right: what is there, what is wanted, and the class."""
    row, gap, wish_x, leaf_x, leaf_width = 34, 16, 282, 560, 262
    n_rows = sum(len(wishes) for wishes in CHOICES.values())
    height = n_rows * row + (len(CHOICES) - 1) * gap + 34
    lines, boxes, top = [], [], 30
    root_y = (30 + height) / 2
    for goal, wishes in CHOICES.items():
        centre = top + len(wishes) * row / 2
        lines.append(branch(112, root_y, 150, centre))
        boxes.append(box(150, centre - 16, 100, 32, goal))
        for number, (wish, classes) in enumerate(wishes):
            y = top + (number + 0.5) * row
            lines.append(branch(250, centre, wish_x - 4, y))
            boxes.append(f'<text x="{wish_x}" y="{y + 4.5:g}">{escape(wish)}</text>')
            first = 124 if len(classes) > 1 else leaf_width + 4
            places = [(leaf_x, first - 4), (leaf_x + first, leaf_width - first)]
            for name, (x, width) in zip(classes, places, strict=False):
                href = f"generated/pursuit.{name}.html"
                boxes.append(box(x, y - 13, width, 26, name, "leaf", href))
        top += len(wishes) * row + gap
    boxes.insert(0, box(2, root_y - 26, 110, 52, "What is", below="to be learned?"))
    heads = [
        (200, "targets", "middle"),
        (wish_x, "what is wanted", "start"),
        (leaf_x, "use", "start"),
    ]
    titles = [
        f'<text class="note" x="{x}" y="14" text-anchor="{anchor}">{text}</text>'
        for x, text, anchor in heads
    ]
    return svg(826, height, "Which estimator for what", [*titles, *lines, *boxes])


def layers():
    """Rooms of each layer, top first, as the import contract has them."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [re.findall(r"\w+", layer) for layer in contract]


def rooms():
    """One line of boxes per layer."""
    left, width, step, tall = 84, 700, 58, 44
    parts = []
    for number, names in enumerate(layers()):
        each = (width - 8 * (len(names) - 1)) / len(names)
        for place, name in enumerate(names):
            x = left + place * (each + 8)
            parts.append(
                box(round(x, 1), 8 + number * step, round(each, 1), tall, name, below=ROOMS[name])
            )
    bottom = len(layers()) * step - 6
    for x, text, up in ((36, "imports", False), (832, "data", True)):
        tip, tail = (10, bottom) if up else (bottom, 10)
        turn = 12 if up else -12
        parts.append(f'<path class="line" d="M{x} {tail}V{tip + turn}"/>')
        parts.append(f'<path class="arrow" d="M{x - 5} {tip + turn}h10L{x} {tip}z"/>')
        middle = bottom / 2
        parts.append(
            f'<text class="note" x="{x - 10}" y="{middle:g}" text-anchor="middle" '
            f'transform="rotate(-90 {x - 10} {middle:g})">{text}</text>'
        )
    return svg(850, bottom + 10, "The packages, and which may import which", parts)


def main():
    (DOCS / "images" / "choose.svg").write_text(choose(), encoding="utf-8")
    (DOCS / "images" / "rooms.svg").write_text(rooms(), encoding="utf-8")


if __name__ == "__main__":
    main()

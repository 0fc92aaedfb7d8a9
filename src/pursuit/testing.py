"""Conformance checks for people who add a kernel, a row source, an objective or a loss.

Each check raises AssertionError with a sentence that says what is wrong. Nothing in this package
imports this module; at import it needs numpy only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pursuit._types import Floats, Indices

if TYPE_CHECKING:
    from pursuit.kernels import Kernel
    from pursuit.objectives import Objective, RowLoss
    from pursuit.rows import Items, RowSource

_ROUNDING = 1e-8
"""Numbers that differ by less than this share of the largest one count as equal."""

_SLOPES = 1e-6
"""The same for derivatives, which are compared with differences."""

_STEP = 1e-4
"""Step of these differences, in units of the logarithm or of the spread of the points."""


def check_row_source(source: RowSource, items: Items) -> None:
    """Check that `source` fulfils the contract of `pursuit.rows.RowSource`.

    Parameters
    ----------
    source : RowSource
        The source to check.
    items : ndarray, CSR matrix or array, or list
        All its rows in order, as its blocks should hold them. At least two rows, so that their
        order can be checked.

    Raises
    ------
    AssertionError
        If blocks do not cover all rows once and in order, if `take` disagrees with them, or if an
        invalid size or row number is accepted.
    """
    # Imported here, so that importing this module stays cheap.
    from pursuit.rows import BLOCK_ROWS

    n_rows = _length(items)
    _require(n_rows >= 2, "items must hold at least two rows for this check")
    _require(source.n_rows == n_rows, f"n_rows is {source.n_rows}, expected {n_rows}")
    for size in (1, 2, n_rows - 1, n_rows, n_rows + 1):
        _check_blocks(f"blocks({size})", source.blocks(size), items, size)
    _check_blocks("blocks()", source.blocks(), items, BLOCK_ROWS)
    _check_take(source, items, n_rows)
    _check_refusals(source, n_rows)


def check_objective(
    make_objective: Callable[[], Objective], duplicates: tuple[int, int], n_steps: int = 3
) -> None:
    """Check that an objective fulfils the contract of `pursuit.objectives.Objective`.

    Parameters
    ----------
    make_objective : callable
        Returns a new objective with nothing chosen, an equal one at every call.
    duplicates : pair of int
        Two equal candidates: once the first is taken, the second is dependent.
    n_steps : int, default 3
        Number of greedy steps to check; every candidate is tried at each of them.

    Raises
    ------
    AssertionError
        If a score differs from the decrease of the value when the candidate is taken, if the score
        of a candidate depends on the others scored with it, if scoring or refusing changes
        anything, or if a taken or dependent candidate stays available.
    """
    chosen: list[int] = []
    for _ in range(n_steps):
        objective = _replayed(make_objective, chosen)
        free = np.flatnonzero(_availability(objective))
        if not len(free):
            break
        scores = _check_scores(objective, free)
        scale = max(abs(objective.value), float(np.abs(scores).max()))
        for candidate, score in zip(free.tolist(), scores.tolist(), strict=True):
            _check_add(_replayed(make_objective, chosen), candidate, score, scale)
        chosen.append(int(free[scores.argmax()]))
    _check_dependent(make_objective, *duplicates)


def check_kernel(kernel: Any, items: Items) -> None:
    """Check that a kernel fulfils the contract of `pursuit.kernels.Kernel`.

    Parameters
    ----------
    kernel : scikit-learn GP kernel or Kernel
        The kernel: an object that users pass, or a node of `pursuit.kernels`. Derivatives by
        hyper-parameters can be compared with differences for the former only.
    items : ndarray of shape (n_items, n_features), or list
        At least four different items. Derivatives are checked for arrays.

    Raises
    ------
    AssertionError
        If tiles are not symmetric, differ from the diagonal, from tiles of other types or from
        blocks `among` items; if a kernel that says that it is positive definite is not; or if
        `theta`, `evaluated`, `points` or `diag_points` differ from differences of the values.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from pursuit.testing import check_kernel
    >>> check_kernel(2.0 * RBF([0.5, 1.0]), np.random.default_rng(0).normal(size=(8, 2)))
    """
    # Imported here, so that importing this module stays cheap.
    from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

    from pursuit.kernels import compile_kernel, kernel_gradient

    n = _length(items)
    _require(n >= 4, "items must hold at least four items for this check")
    given = isinstance(kernel, SklearnKernel)
    rows = items.astype(np.float64) if isinstance(items, np.ndarray) else None
    features = None if rows is None else rows.shape[1]
    node = compile_kernel(kernel, n_features=features)[0] if given else kernel
    _check_values(node, items, n)
    if rows is None:
        return
    A, B = rows[: n // 2], rows[n // 2 :]
    W = np.random.default_rng(0).standard_normal((len(A), len(B)))
    mirror = kernel_gradient(kernel) if given else node
    if mirror is not None and mirror.has_theta:
        theta = mirror.theta(A, B, W)
        if given:
            _check_theta(kernel, theta, A, B, W)
        _check_evaluated(mirror, theta, A, B, W)
    if node.has_points:
        _check_points(node, A, B, W)


def check_loss(loss: RowLoss, y: ArrayLike) -> None:
    """Check that a loss fulfils the contract of `pursuit.RowLoss`.

    Parameters
    ----------
    loss : RowLoss
        The loss to check.
    y : array of shape (n_rows,)
        At least four targets for which it is defined, not all of them equal.

    Raises
    ------
    AssertionError
        If the loss is not convex; if derivatives differ from differences; if a slope is outside
        ``slopes``, or these are not its limits; if the conjugate is not the largest difference
        sf - ℓ(f, y), or not infinite outside ``slopes``; if ``constant`` is not best, ``predicted``
        falls somewhere, or targets that are not finite are accepted.

    Examples
    --------
    >>> from pursuit.objectives import HuberRows
    >>> from pursuit.testing import check_loss
    >>> check_loss(HuberRows(1.5), [0.3, -2.0, 1.0, 4.0])
    """
    is_loss = hasattr(loss, "checked") and not isinstance(loss, type)
    _require(is_loss, f"{loss!r} is not an instance of a subclass of pursuit.RowLoss")
    targets = _check_targets(loss, y)
    for name in ("value", "gradient", "curvature"):
        shape = getattr(loss, name)(np.zeros_like(targets), targets).shape
        _require(shape == targets.shape, f"{name} returns shape {shape}, not {targets.shape}")
    centre = loss.constant(targets, np.ones(len(targets)))
    spread = float(np.std(targets)) if loss.predicted(np.array([7.0]))[0] == 7.0 else 1.0
    rng = np.random.default_rng(0)
    points = np.sort(centre + spread * rng.uniform(-3.0, 3.0, (24, len(targets))), axis=0)
    grid = np.broadcast_to(targets, points.shape)
    _check_convex(loss, points, grid)
    _check_curvature(loss, points, grid, 1e-4 * spread)
    _check_slope_limits(loss, points, grid, centre, spread)
    _check_conjugate(loss, points, grid)
    _check_constant(loss, targets, centre, spread)
    predicted = loss.predicted(points)
    _require(bool(np.all(np.diff(predicted, axis=0) >= 0)), "predicted falls where f rises")


def _check_targets(loss: RowLoss, y: ArrayLike) -> Floats:
    given = np.asarray(y, dtype=np.float64)
    _require(
        given.ndim == 1 and len(given) >= 4 and bool(np.ptp(given) > 0),
        "y must hold at least four targets for this check, not all of them equal",
    )
    targets = loss.checked(given)
    _require(
        targets.dtype == np.float64 and bool(np.array_equal(targets, given)),
        "checked(y) does not return the targets in float64",
    )
    for wrong in (np.nan, np.inf):
        try:
            loss.checked(np.append(given, wrong))
        except ValueError:
            continue
        raise AssertionError(f"checked accepts {wrong} as a target; it must raise ValueError")
    return targets


def _check_convex(loss: RowLoss, points: Floats, y: Floats) -> None:
    """Values, slopes and their order, from inequalities that hold at kinks as well."""
    value, gradient = loss.value(points, y), loss.gradient(points, y)
    for name, found in (("value", value), ("gradient", gradient)):
        _require(bool(np.isfinite(found).all()), f"{name} is not finite near the targets")
    tolerance = _ROUNDING * (np.abs(gradient).max() + np.abs(value).max() / np.ptp(points))
    chords = np.diff(value, axis=0) / np.diff(points, axis=0)
    _require(
        bool(np.all(np.diff(chords, axis=0) >= -tolerance / np.diff(points, axis=0)[1:])),
        "the loss is not convex: a slope between two points exceeds one further up",
    )
    near = points + 1e-6 * np.ptp(points)
    chord = (loss.value(near, y) - value) / (near - points)
    # Differences of values lose digits to the step.
    tolerance = 1e-9 * np.abs(value).max() / (1e-6 * np.ptp(points)) + tolerance
    fits = (chord >= gradient - tolerance) & (chord <= loss.gradient(near, y) + tolerance)
    _require(bool(fits.all()), "gradient differs from differences of the values")


def _check_curvature(loss: RowLoss, points: Floats, y: Floats, step: float) -> None:
    curvature = loss.curvature(points, y)
    at, up, down = (loss.gradient(points + k * step, y) for k in (0, 1, -1))
    ahead, behind = (up - at) / step, (at - down) / step
    scale = float(np.maximum(np.abs(ahead), np.abs(behind)).max())
    # A kink of the slope lies between the points where both sides differ.
    smooth = np.abs(ahead - behind) <= 0.01 * scale
    _require(bool(smooth.mean() > 0.5), "the slope jumps between most points")
    error = np.abs(curvature - 0.5 * (ahead + behind))[smooth].max()
    _require(error <= 1e-4 * scale, f"curvature differs from differences by {error:g} of {scale:g}")
    both = loss.derivatives(points, y)
    largest = float(np.abs(both[0]).max())
    _require(
        _near(both[0], loss.gradient(points, y), largest) and _near(both[1], curvature, scale),
        "derivatives differs from gradient and curvature",
    )
    reach = float(np.abs(points).max())
    limit = min(loss.most_curved, loss.largest_curvature(reach)) * (1.0 + _ROUNDING)
    _require(bool(curvature.max() <= limit), "a curvature exceeds most_curved or largest_curvature")
    if loss.kinked:
        lines = [slope * (points - y) for slope in loss.slopes(y)]
        value = loss.value(points, y)
        _require(
            _near(value, np.maximum(*lines), float(np.abs(value).max())),
            "kinked is True, and the loss is not made of two lines that meet at f = y",
        )


def _check_slope_limits(
    loss: RowLoss, points: Floats, y: Floats, centre: float, spread: float
) -> None:
    low, high = loss.slopes(y)
    gradient = loss.gradient(points, y)
    room = _ROUNDING * np.abs(gradient)
    _require(
        bool(np.all((gradient >= low - room) & (gradient <= high + room))),
        "a gradient is outside slopes(y)",
    )
    for side, ends in ((-1.0, low[0]), (1.0, high[0])):
        finite = np.isfinite(ends)
        _check_finite_ends(loss, y[0][finite], ends[finite], side, centre + side * 1e6 * spread)
        _check_infinite_ends(loss, y[0][~finite], side, centre, spread)


def _check_finite_ends(loss: RowLoss, y: Floats, ends: Floats, side: float, far: float) -> None:
    near = 1e-3 * (1.0 + np.abs(ends))
    gradient = _far_gradient(loss, y, far)
    _require(
        bool(np.all(np.abs(gradient - ends) <= near)),
        f"slopes(y) ends at {ends[:1]}, and the gradient at f = {far:g} is far from it",
    )
    _require(
        bool(np.all(loss.conjugate(ends + side * near, y) == np.inf)),
        "the conjugate must be infinite outside slopes(y)",
    )


def _check_infinite_ends(
    loss: RowLoss, y: Floats, side: float, centre: float, spread: float
) -> None:
    far, farther = (
        side * _far_gradient(loss, y, centre + side * reach * spread) for reach in (1e3, 1e6)
    )
    grows = np.isinf(farther) | (farther > 1.001 * np.abs(far))
    _require(
        bool(grows.all()),
        f"slopes(y) is infinite, and the gradient stays near {far[:1]}: define slopes",
    )


def _far_gradient(loss: RowLoss, y: Floats, f: float) -> Floats:
    with np.errstate(over="ignore"):
        gradient = loss.gradient(np.full_like(y, f), y)
    _require(not np.isnan(gradient).any(), f"gradient is NaN at f = {f:g}: avoid the overflow")
    return gradient


def _check_conjugate(loss: RowLoss, points: Floats, y: Floats) -> None:
    """Slopes between those of two neighbours, whose maximiser lies between the two."""
    ends = loss.gradient(points, y)
    slope = 0.5 * (ends[:-1] + ends[1:])
    found = loss.conjugate(slope, y[1:])
    low, high = points[:-1].copy(), points[1:].copy()

    def gain(f: Floats) -> Floats:
        return slope * f - loss.value(f, y[1:])

    for _ in range(100):
        third, other = (2.0 * low + high) / 3.0, (low + 2.0 * high) / 3.0
        rises = gain(third) < gain(other)
        low, high = np.where(rises, third, low), np.where(rises, high, other)
    expected = gain(0.5 * (low + high))
    scale = float(
        (np.abs(slope) * np.abs(points[1:]) + np.abs(loss.value(points[1:], y[1:]))).max()
    )
    _require(
        bool(np.all(found >= expected - _ROUNDING * scale)),
        "the conjugate is below sf - ℓ(f, y) for some f: dual bounds would be wrong",
    )
    _require(
        bool(np.all(found <= expected + _ROUNDING * scale)),
        "the conjugate is above the largest sf - ℓ(f, y): dual bounds would be loose",
    )


def _check_constant(loss: RowLoss, targets: Floats, centre: float, spread: float) -> None:
    def total(b: float) -> float:
        return float(loss.value(np.full_like(targets, b), targets).sum())

    best = total(centre)
    others = [total(centre + step * spread) for step in (-0.1, -1e-3, 1e-3, 0.1)]
    _require(
        best <= min(others) + _ROUNDING * (abs(best) + 1e-300), "constant is not the best constant"
    )


def _check_values(kernel: Kernel, items: Items, n: int) -> None:
    whole = kernel.tile(items, items)
    _require(whole.shape == (n, n), f"a tile has shape {whole.shape}, expected {(n, n)}")
    _require(whole.dtype == np.float64, f"a tile is of type {whole.dtype}, expected float64")
    scale = float(np.abs(whole).max())
    _require(_near(whole.T, whole, scale), "k(a, b) differs from k(b, a)")
    _require(_near(kernel.diag(items), np.diag(whole), scale), "diag differs from the tile")
    half = items[: n // 2]
    bound = kernel.columns(half)
    out = np.empty((n, n // 2))
    _require(bound(items, out) is out, "a tile is not written into `out`")
    _require(_near(out, whole[:, : n // 2], scale), "a smaller tile has other values")
    single = kernel.columns(half, np.float32)(items)
    _require(single.dtype == np.float32, f"a float32 tile is of type {single.dtype}")
    _require(bool(np.all(np.abs(single - out) <= 1e-3 * scale)), "a float32 tile has other values")
    pairs = kernel.among(items[: n - n % 2], 2)
    expected = [whole[i : i + 2, i : i + 2] for i in range(0, n - n % 2, 2)]
    _require(_near(pairs, np.stack(expected), scale), "blocks among items differ from the tile")
    if kernel.positive_definite:
        lowest = float(np.linalg.eigvalsh(whole)[0])
        _require(
            lowest >= -_ROUNDING * scale * n,
            f"positive_definite is True, and an eigenvalue is {lowest:g}",
        )


def _check_theta(kernel: Any, found: Floats, A: Floats, B: Floats, W: Floats) -> None:
    from pursuit.kernels import compile_kernel

    free = len(kernel.theta)
    _require(found.shape == (free,), f"theta returns shape {found.shape}, expected {(free,)}")

    def value(theta: Floats) -> float:
        moved = compile_kernel(kernel.clone_with_theta(theta), n_features=A.shape[1])[0]
        return float(np.vdot(W, moved.tile(A, B)))

    _check_slopes("theta", found, _differences(value, np.asarray(kernel.theta), _STEP))


def _check_evaluated(kernel: Kernel, theta: Floats, A: Floats, B: Floats, W: Floats) -> None:
    rows = np.vstack([A, B])
    values, pullback = kernel.evaluated(rows)
    scale = float(np.abs(values).max())
    _require(_near(values, kernel.tile(rows, rows), scale), "evaluated differs from the tile")
    weights = np.zeros((len(rows), len(rows)))
    weights[: len(A), len(A) :] = W
    _check_slopes("evaluated", pullback(weights), theta)


def _check_points(kernel: Kernel, A: Floats, B: Floats, W: Floats) -> None:
    step = _STEP * float(np.std(np.vstack([A, B])))
    expected = _differences(lambda moved: float(np.vdot(W, kernel.tile(A, moved))), B, step)
    _check_slopes("points", kernel.points(A, B, W), expected)
    weights = W[0]
    expected = _differences(lambda moved: float(weights @ kernel.diag(moved)), B, step)
    scale = float(np.abs(weights @ kernel.diag(B))) / float(np.std(B))
    _check_slopes("diag_points", kernel.diag_points(B, weights), expected, scale)


def _differences(function: Callable[[Floats], float], x: Floats, step: float) -> Floats:
    """Return central differences in every entry of x, extrapolated to fourth order."""
    slopes = np.empty(x.shape)
    for entry in np.ndindex(x.shape):
        values = []
        for multiple in (-2, -1, 1, 2):
            moved = x.copy()
            moved[entry] += multiple * step
            values.append(function(moved))
        fine, coarse = values[2] - values[1], values[3] - values[0]
        slopes[entry] = (8.0 * fine - coarse) / (12.0 * step)
    return slopes


def _check_slopes(name: str, found: Floats, expected: Floats, scale: float = 0.0) -> None:
    _require(
        found.shape == expected.shape, f"{name} returns {found.shape}, expected {expected.shape}"
    )
    scale = max(scale, float(np.abs(expected).max(initial=0.0)))
    error = float(np.abs(found - expected).max(initial=0.0))
    _require(
        error <= _SLOPES * scale,
        f"{name} differs from differences of the values by {error:g}, of {scale:g} at most",
    )


def _replayed(make_objective: Callable[[], Objective], chosen: list[int]) -> Objective:
    """Return a new objective that has taken these candidates, each scored first as in the loop."""
    objective = make_objective()
    for candidate in chosen:
        objective.score(np.array([candidate], dtype=np.intp))
        _require(objective.add(candidate), f"a second objective refuses candidate {candidate}")
    return objective


def _availability(objective: Objective) -> NDArray[np.bool_]:
    available = objective.available
    _require(
        available.ndim == 1 and available.dtype == np.bool_,
        f"available must be a 1-D mask, got {available.dtype} of shape {available.shape}",
    )
    return available.copy()


def _check_scores(objective: Objective, free: Indices) -> Floats:
    value, available = objective.value, _availability(objective)
    scores = np.array(objective.score(free))
    _require(
        scores.shape == free.shape and bool(np.isfinite(scores).all()),
        "score must give one finite number per candidate",
    )
    backwards = objective.score(free[::-1])[::-1]
    alone = np.array([objective.score(free[i : i + 1])[0] for i in range(len(free))])
    for name, again in (("in another order", backwards), ("alone", alone)):
        _require(_near(again, scores, np.abs(scores).max()), f"candidates score otherwise {name}")
    _require(
        objective.value == value and bool(np.array_equal(objective.available, available)),
        "score changes the objective",
    )
    return scores


def _check_add(objective: Objective, candidate: int, score: float, scale: float) -> None:
    value = objective.value
    objective.score(np.array([candidate], dtype=np.intp))
    decrease = score if objective.add(candidate) else 0.0
    _require(
        _near(np.array(value - objective.value), np.array(decrease), scale),
        f"candidate {candidate} lowers the value by {value - objective.value:g}, "
        f"expected {decrease:g}",
    )
    _require(not objective.available[candidate], f"candidate {candidate} is still available")


def _check_dependent(make_objective: Callable[[], Objective], first: int, second: int) -> None:
    objective = _replayed(make_objective, [first])
    value = objective.value
    with np.errstate(divide="ignore", invalid="ignore"):
        objective.score(np.array([second], dtype=np.intp))
    _require(
        not objective.add(second), f"candidate {second} is taken though it is a copy of {first}"
    )
    _require(objective.value == value, f"refusing candidate {second} changes the value")
    _require(not objective.available[second], f"candidate {second} is refused, yet available")


def _near(got: NDArray[Any], expected: NDArray[Any], scale: float) -> bool:
    return bool(np.all(np.abs(got - expected) <= _ROUNDING * scale))


def _check_blocks(call: str, blocks: Iterator[tuple[int, Items]], items: Items, size: int) -> None:
    covered = 0
    for start, block in blocks:
        _require(start == covered, f"{call}: a block starts at row {start}, expected {covered}")
        expected = items[start : start + size]
        _require(_same(block, expected), f"{call}: the block at row {start} differs")
        covered += _length(expected)
    _require(covered == _length(items), f"{call} cover {covered} rows of {_length(items)}")


def _check_take(source: RowSource, items: Items, n_rows: int) -> None:
    for name, numbers in {
        "all rows": range(n_rows),
        "all rows backwards": range(n_rows - 1, -1, -1),
        "a repeated row": (n_rows - 1, 0, n_rows - 1),
        "no rows": (),
    }.items():
        index = np.array(numbers, dtype=np.intp)
        given = index.copy()
        taken = source.take(index)
        _require(_same(taken, _at(items, given)), f"take of {name} gives the wrong items")
        _require(bool(np.array_equal(index, given)), f"take of {name} changed its index")


def _check_refusals(source: RowSource, n_rows: int) -> None:
    for row in (-1, n_rows):
        try:
            source.take(np.array([0, row], dtype=np.intp))
        except ValueError:
            continue
        raise AssertionError(f"take accepts row number {row}; it must raise ValueError")
    try:
        list(source.blocks(0))
    except ValueError:
        return
    raise AssertionError("blocks(0) must raise ValueError")


def _length(items: Items) -> int:
    return len(items) if isinstance(items, list) else int(items.shape[0])


def _at(items: Items, index: Indices) -> Any:
    return [items[i] for i in index] if isinstance(items, list) else items[index]


def _same(got: Any, expected: Any) -> bool:
    """Whether two collections of items are of one kind and hold the same values."""
    if type(got) is not type(expected):
        return False
    if isinstance(expected, list):
        pairs = zip(got, expected, strict=True)
        return len(got) == len(expected) and all(bool(np.all(a == b)) for a, b in pairs)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    if isinstance(expected, np.ndarray):
        return bool(np.array_equal(got, expected))
    return bool((got != expected).nnz == 0)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)

"""Bounds along a path and certificates of its models, beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from pursuit._types import Floats
from pursuit.plots.axes import COLOURS, positive, prepare_axes, wrapped
from pursuit.plots.parts import global_part

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

KNOWN_COLOUR = "0.35"
_ATTRIBUTES = ("rate_bound_", "generalization_bound_")
_WORDS = "known without the bounds"
SHOWS = ("gap", "bounds")
MARKERS = ("o", "s", "^", "D", "v", "P")


class BoundDisplay:
    """Bounds for every size of a model, with measured curves beside them.

    Make one with :meth:`from_estimator`, or from :class:`~pursuit.Bound` objects. A line is dotted
    where its bound is vacuous, that is, says no more than is known without it. The vertical axis
    is logarithmic; values that are not positive are left out.

    Parameters
    ----------
    bounds : sequence of Bound
        Objects with ``name``, ``quantity``, ``size``, ``value``, ``trivial``, ``vacuous`` and
        ``caveat``.
    curves : mapping of str to (sizes, values), optional
        Measured curves and their names.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        The figure of these axes.
    lines_ : dict of str to matplotlib Line2D
        The line of each bound and curve by its name; ``"known"`` is the line of values that are
        known without bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from pursuit import Bound
    >>> from pursuit.plots import BoundDisplay
    >>> size = np.arange(1, 6)
    >>> bound = Bound("a theorem", "risk", size, 3.0 / size, trivial=1.0)
    >>> display = BoundDisplay([bound], {"test error": (size, 0.5 / size)}).plot()
    >>> list(display.lines_)
    ['a theorem', 'known', 'test error']
    """

    ax_: Axes
    figure_: Figure | SubFigure
    lines_: dict[str, Line2D]

    def __init__(
        self, bounds: Sequence[Any], curves: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None
    ) -> None:
        self.bounds = bounds
        self.curves = curves

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        curves: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
        ax: Axes | None = None,
        **line_kw: Any,
    ) -> Self:
        """Draw the bounds of a fitted estimator, or those computed from its training data.

        Parameters
        ----------
        estimator : object
            A fitted estimator with ``rate_bound_`` or ``generalization_bound_``.
        X, y, sample_weight : optional
            The training data, as passed to ``fit``. If they are given, the bounds are computed by
            ``estimator.rate_bounds``.
        curves : mapping of str to (sizes, values), optional
            Measured curves and their names.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **line_kw
            Passed to ``ax.plot`` for the line of each bound.

        Returns
        -------
        BoundDisplay
        """
        kind = type(estimator).__name__
        if X is not None:
            if not hasattr(estimator, "rate_bounds"):
                raise TypeError(
                    f"estimator {kind} has no rate_bounds to compute from X and y: leave them out "
                    "to draw the bound it was fitted with"
                )
            bounds = estimator.rate_bounds(X, y, sample_weight)
        else:
            bounds = [bound for name in _ATTRIBUTES for bound in _bounds_of(estimator, name)]
        if not bounds:
            if hasattr(estimator, "fit") and not hasattr(global_part(estimator), "path_"):
                raise NotFittedError(f"estimator {kind} is not fitted: call its fit method first")
            raise TypeError(
                f"estimator {kind} has no bound: pass one with {' or '.join(_ATTRIBUTES)}, such as "
                "SparseKernelRidge"
            )
        return cls(bounds, curves).plot(ax=ax, **line_kw)

    def plot(self, ax: Axes | None = None, **line_kw: Any) -> Self:
        """Draw the bounds and curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **line_kw
            Passed to ``ax.plot`` for the line of each bound.

        Returns
        -------
        BoundDisplay
            Itself, with ``ax_``, ``figure_`` and ``lines_`` set.
        """
        quantities = {bound.quantity for bound in self.bounds}
        if len(quantities) != 1:
            raise ValueError(
                f"bounds must be at least one, and all of one quantity, got {sorted(quantities)}: "
                "draw others on axes of their own"
            )
        ax = prepare_axes(ax)
        self.lines_ = {}
        for position, bound in enumerate(self.bounds):
            self._draw_bound(ax, bound, position, line_kw)
        self._draw_known(ax)
        for position, (name, (sizes, values)) in enumerate((self.curves or {}).items()):
            colour = COLOURS[(len(self.bounds) + position) % len(COLOURS)]
            drawn = positive(np.asarray(values, dtype=np.float64))
            (self.lines_[name],) = ax.plot(sizes, drawn, color=colour, linewidth=1.0, label=name)
        ax.set_yscale("log")
        ax.set_xlabel("Number of basis functions")
        ax.set_ylabel(wrapped(f"Bound on {quantities.pop()}"))
        ax.legend()
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _draw_bound(self, ax: Axes, bound: Any, position: int, line_kw: dict[str, Any]) -> None:
        """Draw a bound, dotted where it is vacuous."""
        name = bound.name if not bound.caveat else f"{bound.name} ({bound.caveat})"
        key = bound.name if bound.name not in self.lines_ else name
        style: dict[str, Any] = {"color": COLOURS[position % len(COLOURS)], "label": wrapped(name)}
        style |= line_kw
        value = positive(np.asarray(bound.value, dtype=np.float64))
        informative = np.where(bound.vacuous, np.nan, value)
        vacuous = np.where(bound.vacuous, value, np.nan)
        (line,) = ax.plot(bound.size, informative, **style)
        self.lines_[key] = line
        if bound.vacuous.any():
            label = None if np.isfinite(informative).any() else wrapped(f"{name}: vacuous")
            line.set_label("_nolegend_" if label else wrapped(name))
            (dotted,) = ax.plot(bound.size, vacuous, color=line.get_color(), linestyle=":")
            dotted.set_label(label or "_nolegend_")
            if label:
                self.lines_[key] = dotted

    def _draw_known(self, ax: Axes) -> None:
        """Draw the values known without bounds, if the first bound has any."""
        first = self.bounds[0]
        known = np.broadcast_to(np.asarray(first.trivial, dtype=np.float64), np.shape(first.value))
        if np.isfinite(known).any():
            (self.lines_["known"],) = ax.plot(
                first.size, positive(known), color=KNOWN_COLOUR, linestyle="--", label=_WORDS
            )


class CertificateDisplay:
    """Certificates of a model and of its truncations.

    Make one with :meth:`from_estimator`. Both axes are logarithmic; a gap of 0 and a bound that is
    not positive are left out.

    Parameters
    ----------
    sizes : array-like of shape (n_sizes,)
        Numbers of basis functions, increasing.
    upper : array-like of shape (n_sizes,)
        P(f) at each size.
    lower : mapping of str to array-like of shape (n_sizes,)
        For each kind of certificate, its lower bounds on the minimum of P.
    floor : array-like of shape (n_sizes,), optional
        Lower limit of the gap of the published kind.
    target_norm : float, optional
        y'Wy, which makes gaps relative: 2 (upper - lower) / (y'Wy - upper - lower). Without it
        they are in the units of P.
    show : {"gap", "bounds"}, default="gap"
        Draw the gap of each kind and the floor, or the upper value and the lower value of each
        kind with the space between them shaded.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        The figure of these axes.
    lines_ : dict of str to matplotlib Line2D
        The line of each kind, and ``"floor"`` or ``"upper"`` if they are drawn.

    Examples
    --------
    >>> from pursuit.plots import CertificateDisplay
    >>> display = CertificateDisplay(
    ...     [10, 20, 40], [9.0, 5.0, 4.0], {"hybrid": [1.0, 3.0, 3.9]}, show="bounds"
    ... ).plot()
    >>> list(display.lines_)
    ['upper', 'hybrid']
    """

    ax_: Axes
    figure_: Figure | SubFigure
    lines_: dict[str, Line2D]

    def __init__(
        self,
        sizes: ArrayLike,
        upper: ArrayLike,
        lower: Mapping[str, ArrayLike],
        *,
        floor: ArrayLike | None = None,
        target_norm: float | None = None,
        show: Literal["gap", "bounds"] = "gap",
    ) -> None:
        self.sizes = sizes
        self.upper = upper
        self.lower = lower
        self.floor = floor
        self.target_norm = target_norm
        self.show = show

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        kinds: Sequence[str] = ("published", "hybrid"),
        floor: bool = True,
        relative: bool = True,
        show: Literal["gap", "bounds"] = "gap",
        sizes: ArrayLike | None = None,
        ax: Axes | None = None,
        **line_kw: Any,
    ) -> Self:
        """Certify a fitted estimator and its truncations, and draw the certificates.

        Parameters
        ----------
        estimator : object with methods ``certify_path`` and ``fit``
            A fitted estimator. Of a full-scale model the ``global_`` part is certified.
        X, y, sample_weight
            The training data, as passed to ``fit``.
        kinds : sequence of str, default=("published", "hybrid")
            Kinds of certificate, as in ``certify``.
        floor : bool, default=True
            Whether to draw the noise floor of the published kind, which needs the exact solution
            by conjugate gradients. Not drawn with ``show="bounds"``.
        relative : bool, default=True
            Whether gaps are relative, or in the units of P.
        show : {"gap", "bounds"}, default="gap"
            Draw the gaps, or the bounds themselves.
        sizes : array-like of int, optional
            Numbers of basis functions; a grid of ratio 1.25 by default.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **line_kw
            Passed to ``ax.plot`` for the line of each kind.

        Returns
        -------
        CertificateDisplay
        """
        part = global_part(estimator)
        if hasattr(part, "fit") and not hasattr(part, "path_"):
            raise NotFittedError(
                f"estimator {type(estimator).__name__} is not fitted: call its fit method first"
            )
        if not hasattr(part, "certify_path"):
            raise TypeError(
                f"estimator {type(estimator).__name__} has no certify_path: pass one that can "
                "certify its truncations, such as SparseGPRegressor"
            )
        _check_show(show)
        if isinstance(kinds, str) or len(kinds) == 0:
            raise ValueError(f"kinds must be a sequence of at least one kind, got {kinds!r}")
        wants_floor = floor and show == "gap"
        paths = {
            kind: part.certify_path(
                X, y, sample_weight, kind, sizes=sizes, floor=wants_floor and kind == kinds[0]
            )
            for kind in kinds
        }
        first = paths[kinds[0]]
        display = cls(
            first.sizes,
            first.upper,
            {kind: path.lower for kind, path in paths.items()},
            floor=first.floor,
            target_norm=first.certificates[0].target_norms.sum() if relative else None,
            show=show,
        )
        return display.plot(ax=ax, **line_kw)

    def plot(self, ax: Axes | None = None, **line_kw: Any) -> Self:
        """Draw the certificates.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **line_kw
            Passed to ``ax.plot`` for the line of each kind.

        Returns
        -------
        CertificateDisplay
            Itself, with ``ax_``, ``figure_`` and ``lines_`` set.
        """
        _check_show(self.show)
        upper = self._column("upper", self.upper)
        lower = {kind: self._column(f"lower[{kind!r}]", x) for kind, x in self.lower.items()}
        ax = prepare_axes(ax)
        self.lines_ = {}
        if self.show == "gap":
            self._draw_gaps(ax, upper, lower, line_kw)
        else:
            self._draw_bounds(ax, upper, lower, line_kw)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlabel("Number of basis functions")
        ax.legend()
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _draw_gaps(
        self, ax: Axes, upper: Floats, lower: Mapping[str, Floats], line_kw: dict[str, Any]
    ) -> None:
        for position, (kind, values) in enumerate(lower.items()):
            gap = self._gap(upper, upper - values)
            style = _style(position) | {"label": kind} | line_kw
            (self.lines_[kind],) = ax.plot(self.sizes, positive(gap), **style)
        if self.floor is not None:
            floor = self._gap(upper, self._column("floor", self.floor))
            (self.lines_["floor"],) = ax.plot(
                self.sizes,
                positive(floor),
                color=KNOWN_COLOUR,
                linestyle="--",
                label="noise floor of the published kind",
            )
        relative = self.target_norm is not None
        ax.set_ylabel("Relative gap (no units)" if relative else "Gap P(f) - D (units of P)")

    def _draw_bounds(
        self, ax: Axes, upper: Floats, lower: Mapping[str, Floats], line_kw: dict[str, Any]
    ) -> None:
        (self.lines_["upper"],) = ax.plot(
            self.sizes, positive(upper), color=COLOURS[-1], label="P(f), from above"
        )
        for position, (kind, values) in enumerate(lower.items()):
            style = _style(position) | {"label": f"{kind}, from below"} | line_kw
            (self.lines_[kind],) = ax.plot(self.sizes, positive(values), **style)
            ax.fill_between(
                self.sizes,
                positive(values),
                positive(upper),
                color=self.lines_[kind].get_color(),
                alpha=0.12,
                linewidth=0,
            )
        ax.set_ylabel("Bounds of the minimum of P (units of P)")

    def _gap(self, upper: Floats, gap: Floats) -> Floats:
        """The gap itself, or relative to the mean distance of both bounds from ½y'Wy."""
        if self.target_norm is None:
            return gap
        scale = self.target_norm - 2 * upper + gap
        return np.where(scale > 0, 2 * gap / np.where(scale > 0, scale, 1.0), np.nan)

    def _column(self, name: str, values: ArrayLike) -> Floats:
        column, sizes = np.asarray(values, dtype=float), np.asarray(self.sizes)
        if column.shape != sizes.shape or column.ndim != 1:
            raise ValueError(
                f"{name} must have one entry for each of sizes, got shapes {column.shape} and "
                f"{sizes.shape}"
            )
        return column


def _bounds_of(estimator: Any, attribute: str) -> list[Any]:
    """Bounds in an attribute of an estimator; none if it is not fitted."""
    try:
        bounds = getattr(estimator, attribute, None)
    except NotFittedError:
        return []
    return [
        bound for bound in (bounds if isinstance(bounds, list) else [bounds]) if bound is not None
    ]


def _style(position: int) -> dict[str, Any]:
    """Colour and marker of the first, second, … kind."""
    return {
        "color": COLOURS[position % len(COLOURS)],
        "marker": MARKERS[position % len(MARKERS)],
        "markersize": 4,
    }


def _check_show(show: str) -> None:
    if show not in SHOWS:
        raise ValueError(f'show must be "gap" or "bounds", got {show!r}')

"""What theory promises along a path, beside what the path does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from pursuit._types import Floats
from pursuit.plots.axes import COLOURS, prepare_axes, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D


KNOWN_COLOUR = "0.35"
_ATTRIBUTES = ("rate_bound_", "generalisation_bound_")
_WORDS = "known without the bounds"


class BoundDisplay:
    """Bounds for every size of a model, with measured curves beside them.

    Make one with :meth:`from_estimator`, or from :class:`~pursuit.Bound` objects. Where a bound is
    vacuous, because no more than that is known without it, its line is dotted. The vertical axis is
    logarithmic; values that are not positive are left out.

    Parameters
    ----------
    bounds : sequence of Bound
        What to draw: anything with ``name``, ``quantity``, ``size``, ``value``, ``trivial`` and
        ``vacuous``.
    curves : mapping of str to (sizes, values), optional
        Measured curves and their names.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        The figure of these axes.
    lines_ : dict of str to matplotlib Line2D
        The line of each bound and curve by its name; ``"known"`` is what is known without bounds.

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
        self,
        bounds: Sequence[Any],
        curves: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
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
        """Draw the bound of a fitted estimator, or all that its training data allow.

        Parameters
        ----------
        estimator : object
            A fitted estimator with ``rate_bound_`` or ``generalisation_bound_``.
        X, y, sample_weight : optional
            The training data, as passed to ``fit``: with them the bounds are those that
            ``estimator.rate_bounds`` finds.
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
            if hasattr(estimator, "fit") and not hasattr(estimator, "path_"):
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
            drawn = _positive(np.asarray(values, dtype=np.float64))
            (self.lines_[name],) = ax.plot(sizes, drawn, color=colour, linewidth=1.0, label=name)
        ax.set_yscale("log")
        ax.set_xlabel("Number of basis functions")
        ax.set_ylabel(wrapped(f"Bound on {quantities.pop()}"))
        ax.legend()
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _draw_bound(self, ax: Axes, bound: Any, position: int, line_kw: dict[str, Any]) -> None:
        """The line of a bound, dotted where it is vacuous."""
        name = bound.name if not bound.caveat else f"{bound.name} ({bound.caveat})"
        key = bound.name if bound.name not in self.lines_ else name
        style: dict[str, Any] = {"color": COLOURS[position % len(COLOURS)], "label": wrapped(name)}
        style |= line_kw
        value = _positive(np.asarray(bound.value, dtype=np.float64))
        says = np.where(bound.vacuous, np.nan, value)
        nothing = np.where(bound.vacuous, value, np.nan)
        (line,) = ax.plot(bound.size, says, **style)
        self.lines_[key] = line
        if bound.vacuous.any():
            label = None if np.isfinite(says).any() else wrapped(f"{name}: vacuous")
            line.set_label("_nolegend_" if label else wrapped(name))
            (dotted,) = ax.plot(bound.size, nothing, color=line.get_color(), linestyle=":")
            dotted.set_label(label or "_nolegend_")
            if label:
                self.lines_[key] = dotted

    def _draw_known(self, ax: Axes) -> None:
        """What is known without bounds: the first bound's, where it has any."""
        first = self.bounds[0]
        known = np.broadcast_to(np.asarray(first.trivial, dtype=np.float64), np.shape(first.value))
        if np.isfinite(known).any():
            (self.lines_["known"],) = ax.plot(
                first.size, _positive(known), color=KNOWN_COLOUR, linestyle="--", label=_WORDS
            )


def _bounds_of(estimator: Any, attribute: str) -> list[Any]:
    """The bound, or bounds, of a fitted attribute; none where it asks for a fit first."""
    try:
        found = getattr(estimator, attribute, None)
    except NotFittedError:
        return []
    return [bound for bound in (found if isinstance(found, list) else [found]) if bound is not None]


def _positive(values: Floats) -> Floats:
    """What a logarithmic axis can show; the rest as NaN, which is not drawn."""
    return np.where(values > 0, values, np.nan)

"""What estimators with a kernel share: the kernel as tiles, and what scikit-learn is told of it."""

from __future__ import annotations

from typing import Any

from pursuit.estimators.inputs import counting_kernel, is_precomputed
from pursuit.kernels import CountingKernel


class KernelModel:
    """An estimator with the parameters kernel, gamma, coef0, degree and kernel_params."""

    kernel: Any
    gamma: float | str | None
    coef0: float | None
    degree: float | None
    kernel_params: dict[str, Any] | None

    kernel_: Any

    def _kernels_used(self) -> list[Any]:
        """The kernels that a fit goes on with."""
        return [self.kernel_]

    def _kernel_parameters(self) -> dict[str, Any]:
        """Parameters of a named kernel."""
        names = ("gamma", "coef0", "degree", "kernel_params")
        return {name: getattr(self, name) for name in names}

    def _compile(self, kernel: Any, X: Any) -> tuple[CountingKernel, float]:
        """A kernel as tiles for items like X, and the noise of its White terms."""
        return counting_kernel(kernel, X, **self._kernel_parameters())

    def _compiled_kernels(self, X: Any) -> list[CountingKernel]:
        """All kernels as tiles."""
        return [self._compile(kernel, X)[0] for kernel in self._kernels_used()]

    def _compiled(self, X: Any) -> CountingKernel:
        """The one kernel as tiles."""
        [kernel] = self._compiled_kernels(X)
        return kernel

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags


class BasisModel(KernelModel):
    """An estimator whose functions are spanned by its basis."""

    basis_: Any
    basis_indices_: Any

    @property
    def _points(self) -> Any:
        """What the compiled kernel is bound to: basis points, or columns of a given matrix."""
        return self.basis_indices_ if self.basis_ is None else self.basis_

"""Long fits that survive a crash: what is finished lies in a folder, and is not done again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from pursuit.estimators.encoding import decode, encode
from pursuit.gram import GramStatistics, Ledger
from pursuit.greedy import Interrupted
from pursuit.rows import Items, Sample
from pursuit.store import StoreError, library, read, remove_abandoned, write

T = TypeVar("T")

_PROBED_ROWS = 1024
_SUFFIX = ".pursuit"
_FREE_TO_CHANGE = frozenset({"checkpoint", "n_jobs", "verbose", "random_state", "max_time"})
"""Parameters of an estimator that a resumed fit may have changed."""


class Checkpoint:
    """A folder with the stages that a fit has finished, and how far its passes have come.

    A fit is deterministic once its random state is fixed, so that of the first run is kept, and a
    stage is kept with the state after it.

    Parameters
    ----------
    folder : path-like
        Made if it does not exist.
    estimator : estimator
        Whose parameters the stages belong to.
    sample : Sample
        The rows they belong to.
    rng : numpy Generator
        The fit's own; set to the state of the first run.
    interrupted : Interrupted
        After a request to stop, what a stage returns is not what it would have been.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        estimator: Any,
        sample: Sample,
        rng: np.random.Generator,
        interrupted: Interrupted,
    ) -> None:
        self._folder, self._rng, self._interrupted = os.fspath(folder), rng, interrupted
        self._kernel = getattr(estimator, "kernel", None)
        if os.path.exists(self._folder) and not os.path.isdir(self._folder):
            raise ValueError(f"checkpoint {self._folder!r} is a file: name a folder.")
        os.makedirs(self._folder, exist_ok=True)
        remove_abandoned(self._folder, _SUFFIX)
        data, parameters = fingerprint(sample), _parameters(estimator)
        begun = self._read("begin")
        if begun is None:
            header = {
                "version": library(),
                "data": data,
                "parameters": parameters,
                "state": _state(rng),
            }
            write(self._path("begin"), header, {})
            return
        header, _ = begun
        self._check_version(header.get("version"))
        self._check_data(header.get("data"), data)
        self._check_parameters(header.get("parameters"), parameters)
        _restore(rng, header.get("state"))

    def stage(self, name: str, compute: Callable[[], T]) -> T:
        """The stage's result, as recorded or as computed and recorded now."""
        found = self._read(name)
        if found is not None:
            header, arrays = found
            result: T = decode(header["result"], arrays, {"kernel": self._kernel}, name)
            _restore(self._rng, header.get("state"))
            return result
        result = compute()
        if self._interrupted.requested:
            return result
        # A function is not written: the one that the estimator has stands for it.
        kernel = {id(self._kernel): {"!": "given", "name": "kernel"}}
        given = kernel if callable(self._kernel) else {}
        tree, arrays = encode(result, given, name)
        write(self._path(name), {"result": tree, "state": _state(self._rng)}, arrays)
        return result

    def ledgers(self, points: Any, n_rows: int, dtype: DTypeLike, whitener: Any) -> Ledger:
        """The ledger of a pass, known by what it sums."""
        digest = hashlib.sha256(f"{n_rows} {np.dtype(dtype).str} ".encode())
        _digest_items(digest, points)
        if whitener is not None:
            digest.update(_bytes(whitener))
        return FileLedger(self._path(f"pass-{digest.hexdigest()[:16]}"))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{name}{_SUFFIX}")

    def _read(self, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        try:
            return read(self._path(name))
        except FileNotFoundError:
            return None
        except StoreError as error:
            raise StoreError(
                f"{error}. Remove checkpoint {self._folder!r}, or name another folder"
            ) from error

    def _check_version(self, begun: Any) -> None:
        """Stages of another version may be those of another algorithm."""
        if begun != library():
            raise ValueError(
                f"checkpoint {self._folder!r} was begun by pursuit {begun}, and this is pursuit "
                f"{library()}: go on with that version, or name another folder."
            )

    def _check_data(self, begun: Any, now: str) -> None:
        if begun != now:
            raise ValueError(
                f"checkpoint {self._folder!r} was begun with other data (fingerprint {begun}) "
                f"than is passed now ({now}): pass what it was begun with, or another folder."
            )

    def _check_parameters(self, begun: Any, now: dict[str, str]) -> None:
        begun = begun if isinstance(begun, dict) else {}
        changed = sorted(name for name in now | begun if begun.get(name) != now.get(name))
        if changed:
            told = ", ".join(f"{n}={begun.get(n)} (now {now.get(n)})" for n in changed)
            raise ValueError(
                f"checkpoint {self._folder!r} was begun with {told}: set the parameters as they "
                "were, or name another folder."
            )


_ARRAYS = ("gram", "cross", "target_norms")
_NUMBERS = ("trace", "weight", "n_rows")


class FileLedger:
    """Sums of a pass in a file, replaced after every block.

    A file that a crash of the machine has damaged is as good as none: the pass begins again.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def resume(self) -> list[GramStatistics]:
        """The sums recorded last."""
        with contextlib.suppress(FileNotFoundError, StoreError, KeyError):
            header, arrays = read(self._path)
            numbers: list[dict[str, Any]] = header["parts"]
            for i, part in enumerate(numbers):
                part.update({name: arrays[f"{name}-{i}"] for name in _ARRAYS})
            return [GramStatistics(**part) for part in numbers]
        return []

    def record(self, sums: Sequence[GramStatistics]) -> None:
        """Replace the file; a kill at any moment leaves the sums before or after."""
        arrays = {
            f"{name}-{i}": getattr(part, name) for i, part in enumerate(sums) for name in _ARRAYS
        }
        numbers = [{name: getattr(part, name) for name in _NUMBERS} for part in sums]
        write(self._path, {"parts": numbers}, arrays, sync=False)


def fingerprint(sample: Sample) -> str:
    """Of all targets and weights, and of a thousand rows spread over the sample."""
    digest = hashlib.sha256(f"{sample.n_rows} {sample.n_outputs}".encode())
    for values in (sample.targets, sample.weights):
        for start in range(0, len(values), 1 << 16):
            digest.update(_bytes(values[start : start + (1 << 16)]))
    spread = np.unique(np.linspace(0, sample.n_rows - 1, _PROBED_ROWS).astype(np.intp))
    _digest_items(digest, sample.rows.take(spread))
    return digest.hexdigest()[:16]


def _bytes(values: Any) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def _digest_items(digest: Any, items: Items) -> None:
    if sparse.issparse(items):
        for part in (items.data, items.indices, items.indptr):
            digest.update(_bytes(part))
    elif isinstance(items, np.ndarray) and items.dtype.kind in "biuf":
        digest.update(_bytes(items))
    else:
        digest.update(repr(items).encode())


def _parameters(estimator: Any) -> dict[str, str]:
    """What decides the result, for people to read."""
    parameters = estimator.get_params(deep=False).items()
    return {name: _shown(value) for name, value in parameters if name not in _FREE_TO_CHANGE}


def _shown(value: Any) -> str:
    if hasattr(value, "shape"):
        digest = hashlib.sha256()
        _digest_items(digest, value)
        return f"array {value.shape} {digest.hexdigest()[:16]}"
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    # Kernels show three digits of their numbers.
    exact = f" {_numbers(value)}" if isinstance(value, SklearnKernel) else ""
    # Addresses are others in every process.
    return re.sub(r" at 0x[0-9a-fA-F]+", "", f"{value!r}{exact}")


def _numbers(kernel: SklearnKernel) -> dict[str, Any]:
    """All digits of the hyper-parameters of a kernel and of its parts."""
    parameters = sorted(kernel.get_params(deep=True).items())
    return {
        name: np.asarray(value).tolist()
        for name, value in parameters
        if not isinstance(value, SklearnKernel)
    }


def _state(rng: np.random.Generator) -> Any:
    """The generator's state, its large integers as text."""
    return _texts(rng.bit_generator.state)


def _texts(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _texts(value) for key, value in tree.items()}
    return str(tree)


def _restore(rng: np.random.Generator, state: Any) -> None:
    """Set the generator to a recorded state."""
    now = rng.bit_generator.state
    try:
        rng.bit_generator.state = _like(now, state)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError("the recorded random state is not one of this generator") from error


def _like(form: Any, texts: Any) -> Any:
    """Texts as the kinds of value that stand in their place in ``form``."""
    if isinstance(form, dict):
        return {key: _like(value, texts[key]) for key, value in form.items()}
    return type(form)(texts)

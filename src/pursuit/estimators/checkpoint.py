"""Long fits that survive a crash: finished stages lie in a folder, and are not done again."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from pursuit._types import Indices
from pursuit.estimators.records import decode, encode, stand_ins
from pursuit.gram import GramStatistics, PassCheckpoint
from pursuit.greedy import Interrupted
from pursuit.rows import RowSource, Sample, digest_object, plain_text, source_hashes
from pursuit.store import StoreError, library, read, remove_abandoned, write

T = TypeVar("T")

_SUFFIX = ".pursuit"
_FREE_TO_CHANGE = frozenset({"checkpoint", "n_jobs", "verbose", "random_state", "max_time"})
"""Parameters of an estimator that a resumed fit may have changed."""


class Checkpoint:
    """A folder with the finished stages of a fit, and with how far its passes have come.

    A fit is deterministic once its random state is fixed. So the folder keeps the random state of
    the first run, and with each stage the random state after it.

    Parameters
    ----------
    folder : path-like
        Made if it does not exist.
    estimator : estimator
        The stages belong to its parameters. Parameters that files cannot hold, such as functions,
        alone or within lists, dicts and kernels, are not written: those of the estimator are used.
    sample : Sample
        The stages belong to its rows.
    rng : numpy Generator
        The fit's own; set to the state of the first run.
    interrupted : Interrupted
        After a request to stop, the result of a stage is not kept, because it may be incomplete.
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
        self._parameters: dict[str, Any] = estimator.get_params(deep=False)
        if os.path.exists(self._folder) and not os.path.isdir(self._folder):
            raise ValueError(f"checkpoint {self._folder!r} is a file: name a folder.")
        os.makedirs(self._folder, exist_ok=True)
        remove_abandoned(self._folder, _SUFFIX)
        data = fingerprint(sample)
        parameters = {
            name: _shown(value)
            for name, value in self._parameters.items()
            if name not in _FREE_TO_CHANGE
        }
        begun = self._read("begin")
        if begun is None:
            header = {
                "version": library(),
                "data": data,
                "parameters": parameters,
                "state": rng.bit_generator.state,
            }
            write(self._path("begin"), header, {})
            return
        header, _ = begun
        self._check_version(header.get("version"))
        self._check_data(header.get("data"), data)
        self._check_parameters(header.get("parameters"), parameters)
        self._restore_rng(header)

    def recorded(self, name: str) -> Any:
        """The recorded result of a stage; None if the stage has not been finished."""
        stored = self._read(name)
        if stored is None:
            return None
        header, arrays = stored
        result = decode(header.get("result"), arrays, self._parameters, name)
        self._restore_rng(header)
        return result

    def record(self, name: str, result: object) -> None:
        """Record the result of a stage, unless the user has asked to stop while it ran."""
        if self._interrupted.requested:
            return
        try:
            tree, arrays = encode(result, stand_ins(self._parameters), name)
        except StoreError as error:
            raise StoreError(f"the result of stage {error}: fit without checkpoint=") from error
        header = {"result": tree, "state": self._rng.bit_generator.state}
        write(self._path(name), header, arrays)

    def same_data(self, name: str, rows: RowSource) -> None:
        """Refuse the folder if it was begun with other rows of this name."""
        now = fingerprint(Sample(rows, np.empty((rows.n_rows, 0)), np.ones(rows.n_rows)))
        begun = self.recorded(name)
        if begun is None:
            self.record(name, now)
        else:
            self._check_data(begun, now)

    def ledgers(self, points: Any, n_rows: int, dtype: DTypeLike, whitener: Any) -> PassCheckpoint:
        """The ledger of a pass, known by what it sums."""
        digest = hashlib.sha256(f"{n_rows} {np.dtype(dtype).str} ".encode())
        digest_object(digest, points)
        if whitener is not None:
            digest.update(_bytes(whitener))
        return FilePassCheckpoint(self._path(f"pass-{digest.hexdigest()[:16]}"))

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

    def _restore_rng(self, header: dict[str, Any]) -> None:
        try:
            self._rng.bit_generator.state = header["state"]
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise StoreError("the recorded random state is not one of this generator") from error

    def _check_version(self, begun: Any) -> None:
        """Refuse stages of another version, which may be those of another algorithm."""
        if begun != library():
            raise ValueError(
                f"checkpoint {self._folder!r} was begun by pursuit {begun}, and this is pursuit "
                f"{library()}: go on with that version, or name another folder."
            )

    def _check_data(self, begun: Any, now: list[str]) -> None:
        begun = begun if isinstance(begun, list) else []
        if begun != now:
            raise ValueError(
                f"checkpoint {self._folder!r} was begun with other data (fingerprint "
                f"{' '.join(map(str, begun))}) than is passed now ({' '.join(now)}): pass what it "
                "was begun with, or another folder."
            )

    def _check_parameters(self, begun: Any, now: dict[str, str]) -> None:
        begun = begun if isinstance(begun, dict) else {}
        changed = sorted(name for name in now | begun if begun.get(name) != now.get(name))
        if changed:
            both = ", ".join(f"{n}={begun.get(n)} (now {now.get(n)})" for n in changed)
            raise ValueError(
                f"checkpoint {self._folder!r} was begun with {both}: set the parameters as they "
                "were, or name another folder."
            )


class FilePassCheckpoint:
    """Sums of a pass in a file, replaced after every block.

    If a crash of the machine has damaged the file, the pass begins again.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def resume(self) -> list[GramStatistics]:
        """The sums recorded last."""
        with contextlib.suppress(FileNotFoundError, StoreError):
            header, arrays = read(self._path)
            sums: list[GramStatistics] = decode(header.get("sums"), arrays)
            return sums
        return []

    def record(self, sums: Sequence[GramStatistics]) -> None:
        """Replace the file; a kill at any moment leaves the sums before or after."""
        tree, arrays = encode(list(sums))
        write(self._path, {"sums": tree}, arrays, sync=False)


def drawn_once(folder: str, name: str, n_rows: int, draw: Callable[[], Indices]) -> Indices:
    """Row numbers that the first run of a fit has drawn: from its folder, or drawn and written now.

    A fit that is resumed may have another random state, and must take the same rows.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}{_SUFFIX}")
    try:
        header, arrays = read(path)
    except FileNotFoundError:
        index = draw()
        write(path, {"rows": n_rows}, {"index": index})
        return index
    if header.get("rows") != n_rows:
        raise ValueError(
            f"checkpoint {folder!r} was begun with {header.get('rows')} rows, and {n_rows} are "
            "passed now: pass what it was begun with, or another folder."
        )
    return arrays["index"]


def fingerprint(sample: Sample) -> list[str]:
    """Two digests: of all targets and weights, and of all rows, whatever source they come from."""
    beside = hashlib.sha256(f"{sample.n_rows} {sample.n_outputs}".encode())
    for values in (sample.targets, sample.weights):
        for start in range(0, len(values), 1 << 16):
            beside.update(_bytes(values[start : start + (1 << 16)]))
    rows = hashlib.sha256(_form(sample.rows).encode())
    rows.update(_bytes(source_hashes(sample.rows)))
    return [beside.hexdigest()[:16], rows.hexdigest()[:16]]


def _form(rows: RowSource) -> str:
    """Width and type of rows of numbers: rows in float32 are not those in float64."""
    first = rows.take(np.arange(min(rows.n_rows, 1)))
    return f"{getattr(first, 'shape', (0,))[1:]} {getattr(first, 'dtype', None)}"


def _bytes(values: Any) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def _shown(value: Any) -> str:
    """A parameter for people to read, in which everything that decides the result can be seen."""
    if isinstance(value, np.generic):
        return repr(value.item())
    if hasattr(value, "shape"):
        digest = hashlib.sha256()
        digest_object(digest, value)
        return f"array {value.shape} {digest.hexdigest()[:16]}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return _pairs(value)
    if isinstance(value, SklearnKernel):
        # Kernels show three digits of their numbers.
        return f"{plain_text(value)} {_pairs(dict(sorted(value.get_params().items())))}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        given = [f"{name}={_shown(one)}" for name, one in fields.items() if one is not None]
        return f"{type(value).__name__}({', '.join(given)})"
    if isinstance(value, types.FunctionType):
        return f"{value.__qualname__} {hashlib.sha256(_source(value).encode()).hexdigest()[:16]}"
    if isinstance(value, functools.partial):
        return f"partial({_shown(value.func)}, {_shown(value.args)}, {_shown(value.keywords)})"
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    if callable(value) and hasattr(value, "__dict__"):
        return f"{type(value).__qualname__} {_pairs(vars(value))}"
    return plain_text(value)


def _source(function: types.FunctionType) -> str:
    """What a function does: its code, its defaults, and the variables that it encloses."""
    enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
    values = [function.__defaults__, function.__kwdefaults__, enclosed]
    return f"{_code(function.__code__)} {' '.join(map(_shown, values))}"


def _code(code: types.CodeType) -> str:
    """Code without the places where it stands in files, which change when lines move."""
    constants = [
        _code(one) if isinstance(one, types.CodeType) else plain_text(one) for one in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _pairs(values: dict[Any, Any]) -> str:
    shown = (
        f"{name!r}: {_shown(value)}"
        for name, value in values.items()
        if not isinstance(value, SklearnKernel)  # their parts are listed by themselves
    )
    return "{" + ", ".join(shown) + "}"

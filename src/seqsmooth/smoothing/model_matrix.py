"""Where a model keeps one vector a token."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from seqsmooth.ops import checks
from seqsmooth.smoothing.token_vectors import Missing, centre, principal, unit_rows

Matrix = Literal["input", "output"]


def model_matrix(
    model: nn.Module,
    matrix: Matrix | str = "input",
) -> Tensor:  # (V, D)
    """The embedding matrix of a model: what it reads tokens with ("input") or predicts them with ("output").

    Hugging Face's models say which that is. Of others, "input" is the only `nn.Embedding`, and "output" the only
    `nn.Linear` with as many rows as that has; where there are several, name the module or the parameter.
    """
    checks.must(isinstance(model, nn.Module), "model", "an nn.Module", checks.describe(model))
    checks.must(isinstance(matrix, str), "matrix", "'input', 'output' or the name of a module", repr(matrix))
    if matrix not in ("input", "output"):
        return _find_weight(model, matrix)
    method = getattr(model, f"get_{matrix}_embeddings", None)
    module = method() if callable(method) else None
    if module is not None:
        return _weight(module, matrix)
    kind: type[nn.Embedding] | type[nn.Linear] = nn.Embedding if matrix == "input" else nn.Linear
    listed = {name: part for name, part in model.named_modules() if isinstance(part, kind)}
    if matrix == "output":
        sizes = {part.num_embeddings for part in model.modules() if isinstance(part, nn.Embedding)}
        fitting = {name: part for name, part in listed.items() if _weight(part, name).shape[0] in sizes}
        listed = fitting or listed
    shapes = ", ".join(f"{name or 'itself'} {tuple(_weight(part, name).shape)}" for name, part in listed.items())
    rule = f"one with a single nn.{kind.__name__} for tokens, or `matrix` its name"
    checks.must(len(listed) == 1, "model", rule, f"one with {shapes or 'none'}")
    return _weight(next(iter(listed.values())), matrix)


def model_vectors(
    model: nn.Module,
    matrix: Matrix | str,
    *,
    centred: bool,
    rank: int | None,
    missing: Missing,
    counts: Tensor | None,  # (V,)
    min_count: int,
) -> tuple[Tensor, Tensor]:  # (V, D), (V,)
    """The vectors of a model's tokens, and which tokens have one that was trained."""
    checks.flag("centred", centred)
    checks.at_least("min_count", min_count, 0)
    vectors = model_matrix(model, matrix).detach()
    _, known = unit_rows(vectors, missing)
    if min_count:
        checks.must(counts is not None, "counts", "given when `min_count` is greater than 0", None)
        assert counts is not None
        checks.shape("counts", counts, vectors.shape[0], letters="(V,)")
        known = known & (counts.to(known.device) >= min_count)
    if centred:
        vectors, unknown = centre(vectors, ~known)
        known = ~unknown
    if rank is not None:
        checks.at_least("rank", rank, 1)
        checks.must(rank <= vectors.shape[1], "rank", f"at most D = {vectors.shape[1]}", rank)
        vectors = principal(vectors, known, rank)
    return vectors, known


def _find_weight(model: nn.Module, name: str) -> Tensor:
    parameters = dict(model.named_parameters())
    if name in parameters:
        return _check_matrix(parameters[name], name)
    modules = dict(model.named_modules())
    checks.must(name in modules, "matrix", "'input', 'output' or the name of a module of the model", repr(name))
    return _weight(modules[name], name)


def _weight(part: object, name: str) -> Tensor:
    weight = part if isinstance(part, Tensor) else getattr(part, "weight", None)
    checks.must(isinstance(weight, Tensor), "matrix", f"a module with a weight ({name})", checks.describe(part))
    assert isinstance(weight, Tensor)
    return _check_matrix(weight, name)


def _check_matrix(weight: Tensor, name: str) -> Tensor:
    checks.must(weight.dim() == 2, "matrix", f"of shape (V, D) ({name})", tuple(weight.shape))
    checks.must(weight.device != torch.device("meta"), "matrix", f"loaded ({name})", "on the meta device")
    return weight

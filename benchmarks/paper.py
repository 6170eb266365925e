"""The paper's own training times, shown beside ours in `step`."""

from __future__ import annotations

MILLISECONDS: dict[str, tuple[float, ...]] = {
    "MLE": (347,),
    "Tok": (359,),
    "Seq": (390, 395, 401),
    "Seq lazy": (349, 337, 336),
    "Tok-Seq": (445, 446, 453),
}
"""A batch of 50 captions; with Hamming rewards once for each of the pools V, V_batch and V_refs."""

LOSSES: dict[str, str] = {
    "mle": "MLE",
    "tok": "Tok",
    "seq-hamming": "Seq lazy",
    "seq-hamming-5": "Seq lazy",
    "seq-cider-5": "Seq lazy",
    "tok-seq-cider-5": "Tok-Seq",
}
"""The nearest loss of the paper's table for each objective of `step`."""


def ratio(loss: str) -> str:
    """Return the time of a loss over that of MLE, the least and the greatest of them."""
    (base,) = MILLISECONDS["MLE"]
    times = MILLISECONDS[loss]
    return "-".join(dict.fromkeys(f"{time / base:.3f}" for time in (min(times), max(times))))


def beside(objective: str) -> str | None:
    """Return the paper's ratio for an objective of `step`, None where it has none."""
    loss = LOSSES.get(objective)
    return None if loss is None else ratio(loss)


def note() -> str:
    """Say what the paper's ratios are of."""
    return (
        "paper: its own times over its MLE, of whole steps of Show and Tell on a Titan X with the CNN inside, for "
        f"Hamming rewards only: {', '.join(f'{loss} {ratio(loss)}' for loss in MILLISECONDS if loss != 'MLE')}; "
        "its Tok-Seq is not one of its lazy ones, ours all are lazy."
    )

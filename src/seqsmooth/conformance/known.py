"""The losses whose conformance docs/conformance.md publishes: torch's, Hugging Face's, Liger's and ours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from seqsmooth.conformance import adapters
from seqsmooth.conformance.contract import ConformanceReport, examine, not_run
from seqsmooth.conformance.subject import Subject, load
from seqsmooth.packages import describe_error, version_of
from seqsmooth.version import __version__

ISSUES: dict[tuple[str, str], tuple[str, str]] = {
    ("F.cross_entropy", "nothing to predict"): (
        "pytorch#70348, open: a batch of prompts only gives NaN",
        "https://github.com/pytorch/pytorch/issues/70348",
    ),
    ("F.cross_entropy", "garbage where ignored"): (
        "pytorch#11551, open: `ignore_index` does not keep minus infinity out of the gradient",
        "https://github.com/pytorch/pytorch/issues/11551",
    ),
    ("F.cross_entropy", "long sums in fp16"): (
        "pytorch#85791, open: overflow with fp16 and a minibatch",
        "https://github.com/pytorch/pytorch/issues/85791",
    ),
    ("LabelSmoother", "long sums in fp16"): (
        "transformers#10674: NaN in fp16; the sum over V was widened for it, the sum over positions was not",
        "https://github.com/huggingface/transformers/issues/10674",
    ),
    ("T5's own loss", "micro-batches"): (
        "transformers#47688, open: models that take `num_items_in_batch` and leave it unused; it names others",
        "https://github.com/huggingface/transformers/issues/47688",
    ),
    ("Liger cross entropy", "inputs kept"): (
        "Liger-Kernel#272, its fix #1251 open: the gradient is written over the logits behind autograd's back",
        "https://github.com/linkedin/Liger-Kernel/pull/1251",
    ),
}
"""Failures that somebody has reported: (loss, rule) -> (title, address)."""

TRANSFORMERS, LIGER = "transformers.trainer_pt_utils", "liger_kernel.transformers.functional"
OURS = adapters.__name__
LOSSES: tuple[tuple[str, str, Callable[[], Subject]], ...] = (
    ("F.cross_entropy", "torch", partial(load, "torch.nn.functional:cross_entropy")),
    ("LabelSmoother", "transformers", partial(load, f"{TRANSFORMERS}:LabelSmoother")),
    ("ForCausalLMLoss", "transformers", partial(load, f"{OURS}:causal", call="sequence", shifts=True)),
    ("T5's own loss", "transformers", partial(load, f"{OURS}:t5", call="sequence")),
    ("Liger cross entropy", "liger_kernel", partial(load, f"{LIGER}:liger_cross_entropy")),
    ("Liger fused head", "liger_kernel", partial(load, f"{LIGER}:liger_fused_linear_cross_entropy", call="head")),
    ("ss.cross_entropy", "seqsmooth", partial(load, "seqsmooth:cross_entropy")),
    ("ss.linear_cross_entropy", "seqsmooth", partial(load, "seqsmooth:linear_cross_entropy", call="head")),
    (
        "ss.label_smoothing",
        "seqsmooth",
        partial(load, f"{OURS}:label_smoothing_loss", call="sequence", smoothing="alpha"),
    ),
    ("ss.tok", "seqsmooth", partial(load, f"{OURS}:tok_loss", call="sequence", smoothing="alpha", uniform=False)),
    ("ss.integrations.huggingface", "seqsmooth", partial(load, f"{OURS}:function", smoothing="alpha")),
    (
        "ss.integrations.Smoothed",
        "transformers",
        partial(load, f"{OURS}:mixin", call="states", smoothing="alpha", shifts=True),
    ),
)
"""The losses of the table: a name, the package it needs, and how to load it."""


def reports(device: torch.device) -> Iterator[ConformanceReport]:
    """The report on each loss, one after the other; a loss that cannot run has the reason.

    Where there is no GPU, kernels run in Triton's interpreter, if Triton has not been imported before.
    """
    if device.type == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")
    for name, package, make in LOSSES:
        version = __version__ if package == "seqsmooth" else version_of(package)
        if version is None:
            yield not_run(name, {}, f"{package} is not installed")
            continue
        versions = {package: version.partition("+")[0]}  # without the name of its build
        try:
            report = examine(replace(make(), name=name, device=device, versions=versions))
        except Exception as error:  # noqa: BLE001 - a package that does not import here is no reason to stop
            report = not_run(name, versions, describe_error(error))
        yield report

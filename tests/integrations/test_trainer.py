"""The stock Trainer of transformers with our loss, and with the mixin, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import seqsmooth as ss
from oracles import tiny_transformers as tiny
from seqsmooth.integrations import Smoothed, WithReferences, huggingface
from seqsmooth.integrations.candidate_rows import causal_rows
from seqsmooth.ops.cross_entropy import cross_entropy

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'seqsmooth[hf]'")
pytest.importorskip("accelerate", reason="needs accelerate: pip install 'seqsmooth[hf]'")


class Fused(Smoothed, transformers.Trainer):
    pass


class FusedSeq2Seq(Smoothed, transformers.Seq2SeqTrainer):
    pass


def trained(
    name: str,
    folder: Path,
    kind: str,
    objective: ss.Objective | None = None,
    *,
    ragged: bool = False,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> list[float]:
    """The losses of 20 steps, or `max_steps`: of the "stock" Trainer, with our "function", or with the "mixin"."""
    model = tiny.build(name).to(dtype)
    common = {
        "model": model,
        "args": tiny.arguments(folder, **options),
        "train_dataset": tiny.items(name, 40, ragged=ragged, dtype=dtype),
        "data_collator": tiny.collated(model),
    }
    objective = ss.mle() if objective is None else objective
    if kind == "mixin":
        return tiny.losses(Fused(**common, objective=objective))
    if kind == "function":
        return tiny.losses(transformers.Trainer(**common, compute_loss_func=huggingface(objective, model)))
    trainer = transformers.Trainer(**common)
    if model.config.is_encoder_decoder:
        # These models take any keyword but leave the number of items unused, so that the Trainer does not divide by
        # the steps of accumulation: see the test below. This tells it to.
        trainer.model_accepts_loss_kwargs = False
    return tiny.losses(trainer)


@pytest.mark.parametrize(
    ("name", "accumulation"),
    [(name, steps) for name in ("llama", "t5", "vision") for steps in (1, 4)] + [("gpt2", 1), ("marian", 1)],
)
def test_without_smoothing_the_trajectory_is_the_stock_trainers(name: str, accumulation: int, tmp_path: Path) -> None:
    # In float32 the last digit of a loss near 4 is 5e-7, and Adam makes more of it: 1e-6 would be a matter of luck.
    options: dict[str, Any] = {"gradient_accumulation_steps": accumulation, "dtype": torch.float64}
    # The encoder-decoders' own loss averages the means of micro-batches, which is the mean only where they are alike.
    options["ragged"] = name in ("llama", "gpt2") or accumulation == 1
    stock = trained(name, tmp_path, "stock", **options)
    embeddings = torch.randn(tiny.VOCABULARY, 4)
    assert len(stock) == 20
    assert trained(name, tmp_path, "function", ss.tok(embeddings, 0.3, alpha=0.0), **options) == pytest.approx(
        stock, abs=1e-6
    )
    assert trained(name, tmp_path, "mixin", ss.label_smoothing(0.0), **options) == pytest.approx(stock, abs=1e-6)


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_accumulated_micro_batches_are_one_batch(name: str, tmp_path: Path) -> None:
    objective = ss.tok(torch.randn(tiny.VOCABULARY, 4), 0.3, alpha=0.4)
    common = {"ragged": True, "max_steps": 5}
    one = trained(name, tmp_path, "function", objective, per_device_train_batch_size=8, **common)
    split = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    assert trained(name, tmp_path, "function", objective, **split, **common) == pytest.approx(one, abs=1e-5)
    assert trained(name, tmp_path, "mixin", objective, **split, **common) == pytest.approx(one, abs=1e-5)


def test_smoothing_equals_the_label_smoother(tmp_path: Path) -> None:
    objective = ss.label_smoothing(0.1)
    stock = trained("llama", tmp_path, "stock", label_smoothing_factor=0.1, max_steps=5)
    assert trained("llama", tmp_path, "function", objective, max_steps=5) == pytest.approx(stock, abs=1e-5)
    assert trained("llama", tmp_path, "mixin", objective, max_steps=5) == pytest.approx(stock, abs=1e-5)


@pytest.mark.parametrize("name", ["llama", "marian"])
@pytest.mark.parametrize("mixin", [False, True])
def test_evaluation_is_the_plain_likelihood(name: str, mixin: bool, tmp_path: Path) -> None:
    model = tiny.build(name)
    items = tiny.items(name, 6, ragged=True)
    common = {
        "model": model,
        "args": tiny.arguments(tmp_path, per_device_eval_batch_size=6),
        "eval_dataset": items,
        "data_collator": tiny.collated(model),
    }
    objective = ss.label_smoothing(0.5)
    trainer = (
        Fused(**common, objective=objective)
        if mixin
        else transformers.Trainer(**common, compute_loss_func=huggingface(objective))
    )
    batch = tiny.collated(model)(items)
    with torch.no_grad():
        wanted = model.eval()(**batch).loss
    assert trainer.evaluate()["eval_loss"] == pytest.approx(float(wanted), abs=1e-5)
    assert trainer.predict(items).predictions is not None  # logits, where they are asked for


def test_the_mixin_never_makes_the_logits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.build("llama")
    rows = []
    model.lm_head.register_forward_hook(lambda module, given, logits: rows.append(logits.shape[1]))
    common = {"model": model, "args": tiny.arguments(tmp_path, max_steps=2), "train_dataset": tiny.items("llama", 4)}
    tiny.losses(Fused(**common, data_collator=tiny.collated(model), objective=ss.mle()))
    assert rows == [3, 3]  # a stand-in of three positions, to see that the model hands it on unchanged
    assert "forward" not in model.lm_head.__dict__


def test_own_prefixes_are_decoded_and_weighed(tmp_path: Path) -> None:
    """Against the loss written out: each sample a row, decoded alone, weighed by hand."""
    model = tiny.build("t5").eval()
    objective = ss.seq(rate=0.5, alpha=0.6, samples=3, lazy=False, vocab_size=tiny.VOCABULARY)
    args = tiny.arguments(tmp_path)
    trainer = Fused(model=model, args=args, data_collator=tiny.collated(model), objective=objective)
    batch = tiny.collated(model)(tiny.items("t5", 4, ragged=True))
    torch.manual_seed(7)
    loss = trainer.compute_loss(model, dict(batch), num_items_in_batch=torch.tensor(20))
    torch.manual_seed(7)
    candidates = objective.propose(batch["labels"])
    wanted = torch.zeros(())
    for place in range(4):
        read = torch.cat([torch.zeros(4, 1, dtype=torch.long), candidates.sequences[:, place, :-1]], 1)
        logits = model(input_ids=batch["input_ids"], decoder_input_ids=read).logits
        wanted = wanted + cross_entropy(logits, candidates.target[:, place], reduction="sum") / 20
    torch.testing.assert_close(loss, wanted)
    stray = torch.equal(candidates.sequences[:, 0], candidates.sequences[:, 1])
    assert not stray, "the samples must differ from the ground truth, or this shows nothing"


def padded(values: Tensor, value: int) -> Tensor:
    """Three places of padding a row, those of the first all to the left, those of the last to the right."""
    rows = [torch.nn.functional.pad(row, (3 - item, item), value=value) for item, row in enumerate(values)]
    return torch.stack(rows)


@pytest.mark.parametrize("law", [ss.Hamming(rate=0.5, alpha=0.6, samples=3), ss.Edit(tau=0.6, alpha=0.6, samples=3)])
def test_a_causal_model_decodes_samples_after_their_prompts(law: Any, tmp_path: Path) -> None:
    """Against the loss written out: prompt and sample put together row by row, decoded alone without any padding."""
    model = tiny.build("llama").eval()
    objective = ss.Objective(law, lazy=False, vocab_size=tiny.VOCABULARY)
    args = tiny.arguments(tmp_path)
    trainer = Fused(model=model, args=args, data_collator=tiny.collated(model), objective=objective)
    batch = tiny.collated(model)(tiny.items("llama", 4, ragged=True))
    answers = [labels[labels != -100] for labels in batch["labels"]]
    prompts = [ids[labels == -100].tolist() for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True)]
    batch = {name: padded(values, value) for (name, values), value in zip(batch.items(), (-100, 0), strict=True)}
    batch["attention_mask"] = padded(torch.ones(4, tiny.LONGEST, dtype=torch.long), 0)
    batch["position_ids"] = padded(torch.arange(tiny.LONGEST).expand(4, -1), 1)
    left = torch.nn.utils.rnn.pad_sequence(answers, batch_first=True, padding_value=-100)
    # As long as the mixin's own, so that the same numbers are drawn.
    left = torch.nn.functional.pad(left, (0, batch["labels"].shape[1] - left.shape[1]), value=-100)
    torch.manual_seed(7)
    loss = trainer.compute_loss(model, dict(batch), num_items_in_batch=torch.tensor(20))
    torch.manual_seed(7)
    candidates = objective.propose(left)
    wanted = torch.zeros(())
    for item, prompt in enumerate(prompts):
        for place in range(4):
            length = int(candidates.mask[item, place].sum())
            row = torch.tensor([prompt + candidates.sequences[item, place, :length].tolist()])
            logits = model(input_ids=row).logits[:, len(prompt) - 1 : -1]
            target = candidates.target[item : item + 1, place, :length]
            wanted = wanted + cross_entropy(logits, target, reduction="sum") / 20
    torch.testing.assert_close(loss, wanted)
    assert not torch.equal(candidates.sequences[:, 0], candidates.sequences[:, 1]), "nothing was changed"


def test_what_goes_with_tokens_goes_with_those_of_samples() -> None:
    """Two prompts, of three tokens and of one; the type of a token is that of its part. A sample may be longer."""
    objective = ss.Objective(ss.Edit(tau=2.0, alpha=0.5, samples=40), lazy=False, vocab_size=20)
    targets = torch.tensor([[-100, -100, 5, 6, -100], [7, 8, -100, -100, -100]])
    types = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 0, 0]])
    torch.manual_seed(0)
    rows = causal_rows(objective, {"input_ids": torch.ones_like(targets), "token_type_ids": types}, targets, None)
    batch, count, longest = rows.candidates.sequences.shape
    assert longest > targets.shape[1]
    for item, prompt in enumerate((3, 1)):
        kinds = rows.inputs["token_type_ids"].view(batch, count, longest)[item]
        assert (kinds == torch.tensor([0] * prompt + [1] * (longest - prompt))).all()
    for name in ("position_ids", "token_type_ids", "attention_mask"):
        with pytest.raises(ValueError, match=rf"^`{name}` has shape \(3, 2, 5\); lazy=False needs \(B, S\) = \(2, 5\)"):
            causal_rows(objective, {"input_ids": types, name: types.expand(3, 2, 5)}, targets, None)


def test_several_answers_a_row_are_refused_where_samples_are_decoded(tmp_path: Path) -> None:
    model = tiny.build("llama")
    objective = ss.seq(rate=0.1, lazy=False, vocab_size=tiny.VOCABULARY)
    trainer = Fused(model=model, args=tiny.arguments(tmp_path), objective=objective)
    labels = torch.tensor([[-100, 5, 6, -100, 7, 8]])
    with pytest.raises(
        ValueError, match=r"^A row of the labels has several answers; with lazy=False a row holds one \(no"
    ):
        trainer.compute_loss(model, {"input_ids": labels.abs() % 30, "labels": labels})


def test_a_captioner_learns_with_a_reward_over_references(tmp_path: Path) -> None:
    reward = ss.Rewarded(ss.rewards.Bleu(), ss.Hamming(rate=0.3, pool="refs"), tau=0.5, samples=2, alpha=0.5)
    objective = ss.Objective(reward, lazy=False, vocab_size=tiny.VOCABULARY)
    model = tiny.build("vision")
    data = [item | {"references": [[5, 6, 7], [8, 9]]} for item in tiny.items("vision", 8, ragged=True)]
    args = tiny.arguments(tmp_path, max_steps=12)
    collate = WithReferences(tiny.collated(model))
    trainer = FusedSeq2Seq(
        model=model, args=args, train_dataset=data, eval_dataset=data, data_collator=collate, objective=objective
    )
    before = trainer.evaluate()["eval_loss"]
    tiny.losses(trainer)
    assert trainer.evaluate()["eval_loss"] < before


def test_the_kernels_do_the_same(tmp_path: Path, kernels: torch.device) -> None:
    objective = ss.tok(torch.randn(tiny.VOCABULARY, 4), 0.3, alpha=0.4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQSMOOTH_KERNELS", "torch")
        plain = trained("llama", tmp_path, "mixin", objective, max_steps=2)
    for kind in ("mixin", "function"):
        assert trained("llama", tmp_path, kind, objective, max_steps=2) == pytest.approx(plain, abs=1e-5)


@pytest.mark.parametrize("kind", ["mixin", "function"])
def test_a_compiled_model_is_one_graph(kind: str, tmp_path: Path) -> None:
    plain = trained("llama", tmp_path, kind, ss.label_smoothing(0.1), max_steps=4)
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    options = {"torch_compile": True, "torch_compile_backend": "aot_eager"}
    assert trained("llama", tmp_path, kind, ss.label_smoothing(0.1), max_steps=4, **options) == pytest.approx(plain)
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


def test_captions_are_generated_at_evaluation(tmp_path: Path) -> None:
    model = tiny.build("vision")
    data = [item | {"references": [[5, 6, 7]]} for item in tiny.items("vision", 4, ragged=True)]
    model.generation_config.update(decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, max_length=6)
    trainer = FusedSeq2Seq(
        model=model,
        args=tiny.arguments(tmp_path, predict_with_generate=True),
        eval_dataset=data,
        data_collator=WithReferences(tiny.collated(model)),
        objective=ss.seq(rate=0.1, pool="refs", lazy=False, vocab_size=tiny.VOCABULARY),
    )
    assert trainer.predict(data).predictions.shape[0] == 4


def test_outputs_asked_for_in_training_have_the_same_loss(tmp_path: Path) -> None:
    model = tiny.build("t5").eval()
    batch = tiny.collated(model)(tiny.items("t5", 4, ragged=True))
    trainer = Fused(model=model, args=tiny.arguments(tmp_path), objective=ss.label_smoothing(0.3))
    loss, outputs = trainer.compute_loss(model, dict(batch), return_outputs=True)
    assert outputs.logits.shape == (*batch["labels"].shape, tiny.VOCABULARY)
    torch.testing.assert_close(loss, trainer.compute_loss(model, dict(batch)))
    objective = ss.seq(rate=0.1, lazy=False, vocab_size=tiny.VOCABULARY)
    trainer = Fused(model=model, args=tiny.arguments(tmp_path), objective=objective)
    with pytest.raises(
        ValueError, match=r"^With lazy=False there are no outputs to return, .*; leave return_outputs=False\.$"
    ):
        trainer.compute_loss(model, dict(batch), return_outputs=True)


def test_bf16_autocast_reaches_the_head(tmp_path: Path) -> None:
    rounded = trained("llama", tmp_path, "mixin", bf16=True, max_steps=3)
    assert rounded == pytest.approx(trained("llama", tmp_path, "mixin", max_steps=3), rel=2e-2)


def test_models_whose_head_is_more_than_a_matrix_are_refused(tmp_path: Path) -> None:
    model = tiny.build("llama")
    plain = model.forward

    def capped(*args: Any, **kwargs: Any) -> Any:
        outputs = plain(*args, **kwargs)
        outputs.logits = 5 * torch.tanh(outputs.logits / 5) + 1
        return outputs

    model.forward = capped
    args = tiny.arguments(tmp_path)
    trainer = Fused(model=model, args=args, train_dataset=tiny.items("llama", 4), objective=ss.mle())
    with pytest.raises(
        ValueError, match=r"^LlamaForCausalLM changes its logits after its output layer: -?\d+ came out as "
    ):
        trainer.train()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"label_smoothing_factor": 0.1},
            r"^`label_smoothing_factor` is 0\.1, but the objective smooths; leave it at 0",
        ),
        ({"use_liger_kernel": True}, r"^`use_liger_kernel` would replace the objective; leave it off\.$"),
    ],
)
def test_arguments_that_would_be_ignored_are_refused(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    if "use_liger_kernel" in options:
        pytest.importorskip("liger_kernel")
    with pytest.raises(ValueError, match=sentence):
        Fused(model=tiny.build("llama"), args=tiny.arguments(tmp_path, **options), objective=ss.mle())


def test_bart_without_decoder_inputs_is_stopped(tmp_path: Path) -> None:
    """Else it reads the source as if it were the target, and learns without a word."""
    model = tiny.build("bart")
    common = {"model": model, "args": tiny.arguments(tmp_path), "train_dataset": tiny.items("bart", 4)}
    collate = tiny.collated(model, decoder_inputs=False)
    assert tiny.losses(transformers.Trainer(**common, data_collator=collate, compute_loss_func=huggingface(ss.mle())))
    loss = huggingface(ss.mle(), model)
    with pytest.raises(ValueError, match=r"^The batch has no `decoder_input_ids`, .*; DataCollatorForSeq2Seq"):
        transformers.Trainer(**common, data_collator=collate, compute_loss_func=loss).train()


def test_stock_seq2seq_loss_grows_with_the_steps_of_accumulation(tmp_path: Path) -> None:
    """A fault of transformers, of which ours is free; should it be mended, the comparison above needs no help."""
    firsts = {}
    for steps in (1, 4):
        model = tiny.build("t5")
        args = tiny.arguments(
            tmp_path, max_steps=1, gradient_accumulation_steps=steps, per_device_train_batch_size=8 // steps
        )
        common = {"model": model, "args": args, "train_dataset": tiny.items("t5", 40)}
        firsts[steps] = tiny.losses(transformers.Trainer(**common, data_collator=tiny.collated(model)))[0]
    mended = firsts[4] == pytest.approx(firsts[1], rel=1e-5)
    assert mended or firsts[4] == pytest.approx(4 * firsts[1], rel=1e-5)
    ours = trained("t5", tmp_path, "function", max_steps=1, gradient_accumulation_steps=4)
    assert ours[0] == pytest.approx(firsts[1], rel=1e-5)

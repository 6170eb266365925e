"""The measurement of host time runs where there is no GPU, and sees the launches that a step really has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import host_time

ROOT = Path(__file__).resolve().parents[2]
LAUNCHES = {
    "torch, head": 0,
    "mle, head": 5,  # the target, the loss, hidden states without ignored rows, the sum, the gradient rescaled
    "mle, logits": 4,  # the target, the loss, the sum, the gradient again
    "mle, targets": 4,
    "tok-seq, head": 6,
}


def test_prints_times_and_launches(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    host_time.main(["--times", "10"])
    lines = capsys.readouterr().out.splitlines()[1:]
    rows = {line[:42].strip(): [int(number) for number in line[42:].split()] for line in lines}
    assert {name: rows[name][-1] for name in LAUNCHES} == LAUNCHES
    for propose, loss, backward, total, _ in rows.values():
        # Quantiles of the parts may come from different calls, so they are no more than that of the sum.
        assert propose + loss + backward <= total + 2
        assert min(loss, backward) > 0


def test_two_checkouts_take_turns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_time, "CALLS", 5)
    host_time.main([str(ROOT), str(ROOT), "--times", "10", "--path", "torch"])
    text = capsys.readouterr().out
    rows = re.findall(r"^\| (.+) \| (\d+) \| (\d+) \| ([\d.]+) \| 0 -> 0 \|$", text, re.MULTILINE)
    assert {"torch, logits", "mle, targets", "tok-seq, head"} <= {row[0] for row in rows}
    for _, before, after, ratio in rows:
        assert float(ratio) == pytest.approx(int(after) / int(before), rel=0.1)
    worst = max((float(ratio), name) for name, _, _, ratio in rows if not name.startswith("torch"))[0]
    assert f", at most {worst:.2f} (" in text


def test_samples_of_all_turns_count() -> None:
    worker = host_time.Worker.__new__(host_time.Worker)
    worker.samples = {("mle", "logits"): [[float(n), 2.0 * n, 0.0] for n in range(20)]}
    assert worker.parts(("mle", "logits")) == [2.0, 4.0, 0.0]
    assert worker.total(("mle", "logits")) == 6.0


def test_one_checkout_is_no_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        host_time.main(["."])
    assert "Give no checkout or two" in capsys.readouterr().err

"""Every config that was packaged and every run that was recorded before configs were factored resolves as it did."""

from __future__ import annotations

import json

from oracles import resolved_configs

BEFORE = json.loads(resolved_configs.LIST.read_text(encoding="utf-8"))


def test_every_packaged_config_resolves_to_the_same_values() -> None:
    now = resolved_configs.configs()
    assert len(BEFORE["configs"]) == 269
    assert {name: now.get(name) for name in BEFORE["configs"]} == BEFORE["configs"]


def test_every_packaged_sweep_plans_the_same_runs() -> None:
    now = resolved_configs.sweeps()
    assert len(BEFORE["sweeps"]) == 44
    assert now.keys() >= BEFORE["sweeps"].keys()
    listed = {name for name, runs in BEFORE["sweeps"].items() if now[name] != runs}
    # Sweeps of all losses, or of patterns, go in the order of the base's list.
    assert listed == {"coco/stage_one/table", "coco/stage_one/authors/rest"} | {
        f"{base}/table" for base in ("multi30k", "iwslt14_21k", "tatoeba_de_en", "tatoeba_en_fr")
    }
    assert all(sorted(now[name]) == sorted(BEFORE["sweeps"][name]) for name in listed)


def test_every_recorded_run_resolves_to_the_same_values() -> None:
    now = resolved_configs.records()
    assert len(BEFORE["records"]) == 282
    assert {name: now.get(name) for name in BEFORE["records"]} == BEFORE["records"]

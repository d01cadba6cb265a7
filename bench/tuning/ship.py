"""Tunes shipped specs on this machine and writes what is faster to the database that ships with the
compiler (`toolchain/xlac/codegen/schedules/shipped`), for this processor and number of threads:

    python bench/tuning/ship.py --work out/shipped --seconds 60 --threads 1   # nothing else running

Goes on where it was. What a compiler's change makes faster by itself has to be tuned again: remove
the folder of work, and the processor's file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import xlac
from xlac.codegen.schedules.document import read
from xlac.codegen.schedules.shipped.database import FOLDER
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

ROOT = Path(__file__).resolve().parents[2]
SPECS = (
    "bert_layer", "gpt2_decode", "layernorm_gelu", "lstm_3x60", "lstm_stream", "mobilenet_v2",
    "resnet50", "softmax", "tagger",
)  # fmt: skip


def kept(data: dict[str, Any]) -> dict[str, Any]:
    """What a tuning found to be faster, without what it only tried."""
    tuned, names = data["tuned"], {*data["placements"], *data["rewrites"]}
    groups = {name: one for name, one in tuned["groups"].items() if name in data["schedules"]}
    values = {name: one for name, one in tuned["values"].items() if name in names}
    return {**data, "tuned": {**tuned, "groups": groups, "values": values}}


def main() -> None:
    """Tunes what is not tuned yet, and writes the database's file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    target = find("cpu").target(Request(threads=given.threads))
    found: dict[str, Any] = {}
    for name in SPECS:
        done = given.work / f"{name}_{given.threads}.json"
        if not done.exists():
            options = {"seconds": given.seconds, "threads": given.threads, "tell": print}
            data = xlac.tune(ROOT / "specs" / f"{name}.yaml", **options)
            done.write_text(json.dumps(data))
        one = kept(json.loads(done.read_text()))
        for section in ("rewrites", "placements", "schedules"):
            found[section] = {**found.get(section, {}), **one[section]}
        for part in ("groups", "values"):
            tuned = found.setdefault("tuned", {**one["tuned"], "groups": {}, "values": {}})
            tuned[part] |= one["tuned"][part]
    read(found)
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{target.hardware.processor}_{given.threads}.json"
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(file, *(f"{len(found[s])} {s}" for s in ("rewrites", "placements", "schedules")))


if __name__ == "__main__":
    main()

"""The specs that are shipped: models, and those that say how one is trained."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "specs"
TRAINING = sorted(f for f in FOLDER.glob("*.yaml") if "\ntrain:" in f.read_text("utf-8"))
MODELS = sorted(f for f in FOLDER.glob("*.yaml") if f not in TRAINING)

"""Fixtures of tests of calls: a spec, and each way to call it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ways_to_call import SPEC, WAYS


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("calls") / "both.yaml"
    file.write_text(SPEC, "utf-8")
    return file


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest, spec: Path) -> Any:
    return request.param, WAYS[request.param](spec)

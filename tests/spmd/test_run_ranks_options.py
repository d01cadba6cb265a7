"""What does not go with `xlac run --mesh` is refused, before MPI is asked for."""

from __future__ import annotations

import pytest
from shipped import FOLDER

from xlac.cli import status


@pytest.mark.parametrize(
    ("option", "named"),
    [
        (["--allow-long"], "--allow-long"),
        (["--copy-weights"], "--copy-weights"),
        (["--checked"], "--checked"),
        (["--entry", "step"], "--entry"),
    ],
)
def test_options_of_one_process(
    option: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["run", str(FOLDER / "digits.yaml"), "--mesh", "data=2", *option]) == 2
    assert f"--mesh does not go with {named}" in capsys.readouterr().err


def test_no_launcher(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    assert status(["run", str(FOLDER / "digits.yaml"), "--mesh", "data=2"]) == 3
    assert "no launcher of MPI started this process" in capsys.readouterr().err

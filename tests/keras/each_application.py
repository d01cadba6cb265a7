"""Every model of keras.applications of at most 100 M parameters, one after the other: written by
Keras and TensorFlow's converter, then compared, each step in a process of its own:

    each_application.py FOLDER KERAS_PYTHON [NAME…]

KERAS_PYTHON is the Python of the environment that has TensorFlow, Keras and xlac; xlac is in this
one too. A model that agrees leaves FOLDER/NAME.agrees and no other file, so that the command can be
stopped and given again; models that differ are named at the end, and their files are kept.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
MINUTES = 60  # of one step
NONE = 3  # the status of a model that has too many parameters


def step(python: str, script: str, *arguments: str) -> int:
    """The exit status of a step; 1 where it takes too long."""
    command = [python, str(HERE / script), *arguments]
    try:
        return subprocess.run(command, check=False, timeout=60 * MINUTES).returncode
    except subprocess.TimeoutExpired:
        print(f"{script} took more than {MINUTES} minutes", flush=True)
        return 1


def agrees(folder: Path, python: str, name: str) -> bool:
    """Writes and compares a model; true also for one that is too large."""
    written = step(python, "applications.py", str(folder), name)
    if written not in (0, NONE):
        return False
    if written == 0:
        if step(sys.executable, "compare_applications.py", str(folder), name):
            return False
        if step(python, "live_applications.py", str(folder), name):
            return False
    for file in folder.glob(f"{name}.*"):
        file.unlink()
    (folder / f"{name}.agrees").touch()
    return True


def main() -> None:
    """Fails if a model differs by more, or could not be written."""
    folder, python = Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    listed = [python, str(HERE / "applications.py"), "--names"]
    found = subprocess.run(listed, check=True, stdout=subprocess.PIPE, text=True)
    names = sys.argv[3:] or found.stdout.split()
    wrong = []
    for name in names:
        if (folder / f"{name}.agrees").exists():
            continue
        start = time.monotonic()
        right = agrees(folder, python, name)
        wrong += [] if right else [name]
        print(
            f"{name}: {'agrees' if right else 'DIFFERS'}, {time.monotonic() - start:.0f} s",
            flush=True,
        )
    assert not wrong, f"they differ, or were not written: {', '.join(wrong)}"


if __name__ == "__main__":
    main()

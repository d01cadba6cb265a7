"""Fuzzes one target until time is over: `python -m harness.engine NAME FOLDER SECONDS`, of which
starting and reading seeds are a part. What atheris drives; see fuzz.py.

Findings are written to FOLDER as they come, and fuzzing goes on; only what ends the process itself
(a crash in native code, a call that does not return) is left to libFuzzer to write.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from random import Random

import atheris
from harness.attempt import Finding, attempt
from harness.target import Target, plain, seeds, target

# seconds after which libFuzzer ends the process: native code that does not return. It counts while
# other processes run, and so says nothing about slow inputs, which `attempt` bounds by CPU time
UNANSWERED = 300


def main() -> None:
    start = time.monotonic()
    name, folder, seconds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    with atheris.instrument_imports(include=["xlac", "xlac_sdk"]):
        one = target(name)
        begin = list(seeds(name))
        for data in begin[:20]:  # what is imported when it is first needed is instrumented too
            note(attempt(one, data), folder)
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(begin):
        (corpus / f"seed{number}").write_bytes(data)
    words = folder / "words"
    words.write_text(
        "".join(f'"{"".join(f"{chr(92)}x{byte:02x}" for byte in word)}"\n' for word in one.words)
    )
    left = max(1, seconds - int(time.monotonic() - start))  # 0 would be no limit
    flags = [
        f"-max_total_time={left}", f"-max_len={one.longest}", f"-timeout={UNANSWERED}",
        f"-report_slow_units={UNANSWERED}",
        "-rss_limit_mb=6000", "-malloc_limit_mb=0", f"-artifact_prefix={folder}/",
        *([f"-dict={words}"] if one.words else []), "-print_final_stats=1", "-len_control=20",
        "-close_fd_mask=1", str(corpus),
    ]  # fmt: skip
    mutator = (
        {"custom_mutator": lambda data, most, seed: mutated(one, data, most, seed)}
        if one.mutate
        else {}
    )
    atheris.Setup([sys.argv[0], *flags], lambda data: note(attempt(one, data), folder), **mutator)
    atheris.Fuzz()


def mutated(one: Target, data: bytes, most: int, seed: int) -> bytes:
    """Half the time, something that is nearly right."""
    random = Random(seed)
    assert one.mutate is not None
    made = one.mutate(data, random) if random.random() < 0.7 else None
    if made is None or len(made) > most:
        made = atheris.Mutate(data, most)
    return made or plain(data, random)[:most]


def note(found: Finding | None, folder: Path) -> None:
    """Keeps an input that is like none before it."""
    if found is None or (folder / found.name).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / found.name).write_bytes(found.data)
    (folder / f"{found.name}.txt").write_text(f"{found.key}\n\n{found.text}\n")


if __name__ == "__main__":
    main()

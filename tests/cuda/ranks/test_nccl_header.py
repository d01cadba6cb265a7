"""The table of NCCL's functions, beside the real header and the real library, where the package
nvidia-nccl-cu12 or nvidia-nccl-cu13 is installed.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from xlac_cuda import toolkit
from xlac_cuda.ranks import nccl

CUDA = """\
#pragma once
#include <cstddef>
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
#define CUDART_VERSION 12000
"""
CHECKS = """\
#include <nccl.h>
#include <type_traits>
template <typename T> constexpr char letter() {
    if constexpr (std::is_pointer_v<T>) return 'h';
    else if constexpr (std::is_same_v<T, ncclUniqueId>) return 'u';
    else if constexpr (std::is_same_v<T, size_t>) return 'z';
    else return (std::is_enum_v<T> || std::is_same_v<T, int>) && sizeof(T) == 4 ? 'i' : '?';
}
template <typename... T> constexpr bool takes(ncclResult_t (*)(T...), const char *letters) {
    const char found[] = {letter<T>()..., 0};
    for (size_t i = 0; i <= sizeof...(T); i++)
        if (found[i] != letters[i]) return false;
    return true;
}
"""
TYPES = {
    "i8": "Int8", "u8": "Uint8", "i32": "Int32", "u32": "Uint32", "i64": "Int64", "u64": "Uint64",
    "f16": "Float16", "f32": "Float32", "f64": "Float64", "bf16": "Bfloat16",
}  # fmt: skip
OPERATIONS = {"add": "Sum", "mul": "Prod", "max": "Max", "min": "Min"}


def real() -> Path:
    """The folder of the real library."""
    found = [folder for wheel in nccl.WHEELS for folder in toolkit._package(wheel)]
    there = next((folder for folder in found if (folder / "libnccl.so.2").exists()), None)
    if there is None:
        pytest.skip("NCCL is not installed: pip install nvidia-nccl-cu12")
    return there


def test_the_table_is_that_of_the_header(tmp_path: Path) -> None:
    folder = real().parent / "include"
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    for name in ("cuda_runtime", "cuda_fp16", "cuda_bf16", "cuda_fp8"):
        (tmp_path / f"{name}.h").write_text(CUDA, "utf-8")
    wanted = [f'takes({name}, "{letters}")' for name, letters in nccl.SIGNATURES.items()]
    wanted += [f"nccl{TYPES[str(t)]} == {number}" for t, number in nccl.TYPES.items()]
    wanted += [f"nccl{OPERATIONS[how]} == {number}" for how, number in nccl.OPERATIONS.items()]
    wanted += [
        f"ncclInProgress == {nccl.IN_PROGRESS}",
        f"sizeof(ncclUniqueId) == {nccl.ID_BYTES}",
        f"NCCL_API_MAGIC == {nccl.MAGIC}u",
        f"offsetof(ncclConfig_t, blocking) == {nccl.NcclConfiguration.blocking.offset}",
        f"offsetof(ncclConfig_t, version) == {nccl.NcclConfiguration.version.offset}",
        f"NCCL_VERSION(2, 14, 0) == {nccl.LEAST}",
    ]
    text = CHECKS + "".join(f"static_assert({one});\n" for one in wanted)
    source = tmp_path / "checks.cpp"
    source.write_text(text, "utf-8")
    command = ["g++", "-std=c++17", "-fsyntax-only", "-w", f"-I{tmp_path}", f"-I{folder}"]
    done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_real_library_answers_without_a_gpu() -> None:
    library = nccl.Nccl(ctypes.CDLL(str(real() / "libnccl.so.2")))
    assert library.number >= nccl.LEAST
    assert set(library.raw) == set(nccl.SIGNATURES)
    assert library.text_of(nccl.IN_PROGRESS) == "NCCL operation in progress"
    assert library.unique_id() != library.unique_id()

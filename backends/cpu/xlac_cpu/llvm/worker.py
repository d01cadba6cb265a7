"""Uses LLVM where it may abort: a process with one JSON request on stdin and the answer
on stdout.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from typing import Any

from xlac_cpu.llvm.generator import code_generator
from xlac_cpu.llvm.link import archive
from xlac_cpu.llvm.objects import assembly_here, compile_here, machine_of
from xlac_cpu.llvm.unit import unit_of
from xlac_cpu.machine import Machine

PROBE = """; xlac
target triple = "{triple}"
define void @multiply(ptr %a, ptr %b) #0 {{
  %x = load <16 x float>, ptr %a, align 4
  %y = load <16 x float>, ptr %b, align 4
  %z = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %y, <16 x float> %y)
  store <16 x float> %z, ptr %b, align 4
  ret void
}}
define void @widen(ptr %a, ptr %b) #0 {{
  %x = load <8 x half>, ptr %a, align 2
  %y = fpext <8 x half> %x to <8 x float>
  store <8 x float> %y, ptr %b, align 4
  ret void
}}
define void @masked(ptr %a, ptr %b, <64 x i1> %m) #0 {{
  %x = call <64 x i8> @llvm.masked.load.v64i8.p0(
    ptr align 1 %a, <64 x i1> %m, <64 x i8> zeroinitializer)
  store <64 x i8> %x, ptr %b, align 1
  ret void
}}
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare <64 x i8> @llvm.masked.load.v64i8.p0(ptr, <64 x i1>, <64 x i8>)
attributes #0 = {{ nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }}
"""


def probe(triple: str, cpu: str, features: str) -> dict[str, Any]:
    """The capabilities of a machine, read from the assembly that LLVM makes of a few vector
    instructions.
    """
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        kind = llvm.Target.from_triple(triple)
    except RuntimeError:
        return {"triple": triple}
    known, names = _listed(lambda: kind.create_target_machine(cpu="help"))
    if cpu and cpu not in known:
        return {"cpus": known}
    machine = Machine(triple, cpu, features)
    assembly = assembly_here(PROBE.format(triple=triple), machine)
    parts = dict(
        zip(
            ("multiply", "widen", "masked"),
            re.split(r"\n_?(?:multiply|widen|masked):", assembly)[1:],
            strict=True,
        )
    )
    width = 16
    if re.search(r"\bzmm\d", parts["multiply"]):
        width = 64
    elif re.search(r"\bymm\d", parts["multiply"]):
        width = 32
    elif not re.search(r"mulps|xmm|\bv\d+\.4s|\bq\d+\b|v128|f32x4|vsetiv", parts["multiply"]):
        width = 0
    if re.match("(arm|thumb)(?!64)", triple):
        # NEON of 32-bit processors flushes subnormals to zero, so results would differ
        width = 0
    full = width == 64 and "zmm" in parts["masked"]  # vectors of bytes too: AVX-512BW
    if width == 64 and not full:
        width = 32
    return {
        "cpus": known,
        "features": names,
        "vector_bytes": width,
        "fma": "fmaf" not in parts["multiply"],
        "half": not re.search(r"extendhfsf|gnu_h2f", parts["widen"]),
        "lacks": lacking(machine),
        "masked": full,
        "gathers": full,
        "dots": _dots(machine, width),
        "tables": _tables(machine, width),
    }


def _dots(machine: Machine, width: int) -> str:
    """The instructions for dot products of bytes: what LLVM makes of a sum of such products."""
    if not width or not (machine.is_x86 or machine.arch in ("aarch64", "arm64")):
        return ""
    count = width
    few, many = f"<{count} x i8>", f"<{count} x i32>"
    name = f"llvm.vector.reduce.add.v{count}i32"
    lines = [f'; xlac\ntarget triple = "{machine.triple}"', f"declare i32 @{name}({many})"]
    for extended in ("zext", "sext"):
        lines += [
            f"define i32 @by_{extended}({few} %a, {few} %b) #0 {{",
            f"  %x = {extended} {few} %a to {many}\n  %y = sext {few} %b to {many}",
            f"  %p = mul {many} %x, %y\n  %z = call i32 @{name}({many} %p)\n  ret i32 %z\n}}",
        ]
    both = f'"prefer-vector-width"="{8 * width}" "min-legal-vector-width"="{8 * width}"'
    assembly = assembly_here("\n".join([*lines, f"attributes #0 = {{ {both} }}"]), machine)
    unsigned, signed = re.split(r"\n_?by_[zs]ext:", assembly)[1:]
    if machine.is_x86:
        return "vpdpbusd" if "vpdpbusd" in unsigned else "pmaddwd"
    words = (("sdot", signed), ("usdot", unsigned))
    return " ".join(name for name, part in words if re.search(rf"\s{name}[\s.]", part))


def _tables(machine: Machine, width: int) -> str:
    """The instruction that looks up bytes in a table: what LLVM makes of a permutation of many."""
    if machine.arch in ("aarch64", "arm64"):
        return "tbl" if width else ""
    if not machine.is_x86 or width < 32:
        return ""
    kind, picks = "<64 x i8>", ", ".join(f"i32 {37 * k % 64}" for k in range(64))
    text = (
        f'; xlac\ntarget triple = "{machine.triple}"\ndefine {kind} @permute({kind} %a) #0 {{\n'
        f"  %b = shufflevector {kind} %a, {kind} poison, <64 x i32> <{picks}>\n"
        f"  ret {kind} %b\n}}\n"
        'attributes #0 = { "prefer-vector-width"="512" "min-legal-vector-width"="512" }'
    )
    wide = width == 64 and "vpermb" in assembly_here(text, machine)
    return "vpermi2b" if wide else "pshufb"


def lacking(machine: Machine) -> str:
    """The functions on floats for which LLVM would call the C library, each with its type."""
    lines = [f'; xlac\ntarget triple = "{machine.triple}"']
    intrinsics = {"floor": 1, "ceil": 1, "trunc": 1, "roundeven": 1, "sqrt": 1, "fma": 3}
    for name, count in intrinsics.items():
        for kind, dtype in (("float", "f32"), ("double", "f64")):
            operands = ", ".join([f"{kind} %x"] * count)
            lines += [
                f"declare {kind} @llvm.{name}.{dtype}({', '.join([kind] * count)})",
                f"define void @try_{name}_{dtype}(ptr %p) nounwind {{",
                f"  %x = load {kind}, ptr %p\n  %y = call {kind} @llvm.{name}.{dtype}({operands})",
                f"  store {kind} %y, ptr %p\n  ret void\n}}",
            ]
    assembly = assembly_here("\n".join(lines), machine)
    called = re.findall(
        rf"\s_?({'|'.join(intrinsics)})(f?)(?:@\w+|\(PLT\))?$", assembly, re.MULTILINE
    )
    functions = {
        f"{'round' if name == 'roundeven' else name}.{'f32' if single else 'f64'}"
        for name, single in called
    }
    return " ".join(sorted(functions))


def _listed(ask: Any) -> tuple[list[str], list[str]]:
    """The CPUs and features that LLVM prints on stderr."""
    with tempfile.TemporaryFile() as caught:
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            ask()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        caught.seek(0)
        text = caught.read().decode()
    cpus, _, features = text.partition("Available features")
    return re.findall(r"^ +(\S+) +- Select the \S+ processor", cpus, re.MULTILINE), re.findall(
        r"^ +(\S+) +- ", features, re.MULTILINE
    )


def keep_to(memory: int) -> None:
    """Limits the further memory of the process; LLVM aborts when it is refused memory."""
    import resource
    from pathlib import Path

    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(
        resource.RLIMIT_AS, (held + memory, resource.getrlimit(resource.RLIMIT_AS)[1])
    )


def main() -> None:
    """Answers the request on stdin."""
    question = json.load(sys.stdin)
    if question.get("memory"):
        # libraries are loaded first, so that the limit applies to the work only
        code_generator(machine_of(question["text"]))
        keep_to(question["memory"])
    match question["do"]:
        case "probe":
            answer = json.dumps(
                probe(question["triple"], question["cpu"], question["features"])
            ).encode()
        case "object":
            answer = compile_here(question["text"], machine_of(question["text"]))
        case "units":
            answer = archive(
                [unit_of(facts).compiled(question["form"]) for facts in question["units"]]
            )
        case "assembly":
            answer = assembly_here(question["text"], machine_of(question["text"])).encode()
    sys.stdout.buffer.write(answer)


if __name__ == "__main__":
    main()

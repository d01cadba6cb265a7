"""The function that a thread pool calls for a chunk of a parallel kernel; its arguments are in a
frame on the caller's stack.
"""

from __future__ import annotations

from xlac_cpu.emit import stamp


def chunk(
    symbol: str, pointers: int, sizes: int, stop_checks: bool = False, counter: str = ""
) -> str:
    """The function that the pool calls for one chunk of a parallel kernel; with `stop_checks`, the
    stop flag is its last pointer.

    With a `counter` to read, the frame ends with the words that record the time of each chunk.
    """
    lines, given = [], []
    for i in range(pointers + sizes + 3):
        kind = "ptr" if i < pointers else "i64"
        lines += [
            f"  %a{i} = getelementptr i64, ptr %frame, i64 {i}",
            f"  %w{i} = load {kind}, ptr %a{i}",
        ]
        given.append(f"{kind} %w{i}")
    recorded = []
    if counter:
        recorded = [
            f"  %parts.at = getelementptr i64, ptr %frame, i64 {pointers + sizes + 3}",
            "  %parts = load ptr, ptr %parts.at",
            f"  call void @{stamp.PART}(ptr %parts, i64 %begun)",
        ]
    start, stop, size = (f"%w{pointers + sizes + k}" for k in range(3))
    lines += [
        f"  %before = mul i64 %chunk, {size}",
        f"  %begin = add i64 {start}, %before",
        f"  %after = add i64 %begin, {size}",
        f"  %short = icmp slt i64 %after, {stop}",
        f"  %end = select i1 %short, i64 %after, i64 {stop}",
        *([f"  %begun = call i64 @{counter}()"] if counter else []),
        f"  call void @{symbol}({', '.join([*given[:-3], 'i64 %begin', 'i64 %end'])})",
        *recorded,
        "  ret void",
    ]
    if stop_checks:
        at = next(i for i, line in enumerate(lines) if line.startswith("  %before"))
        lines[at:at] = [
            f"  %flag = load atomic i32, ptr %w{pointers - 1} monotonic, align 4",
            "  %stop = icmp ne i32 %flag, 0",
            "  br i1 %stop, label %leave, label %go",
            "leave:",
            "  ret void",
            "go:",
        ]
    return (
        f"define internal void @{symbol}.chunk(ptr %frame, i64 %chunk) #0 {{\nentry:\n"
        + "\n".join(lines)
        + "\n}"
    )

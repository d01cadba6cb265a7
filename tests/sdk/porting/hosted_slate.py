"""The slate of slate_port.py with the host's side of its programs as C, as a stranger would have
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from host_programs import HostProgram
from jinja2 import Template
from slate_port import FILE, FLAGS, SLATE, SWAPS, SlateBackend

from xlac_sdk.backend import Executable
from xlac_sdk.emit.module import module_text
from xlac_sdk.host.device_c.driver import ENTRY_FORMS, FORMS, HostDriver
from xlac_sdk.host.device_c.package import text_package
from xlac_sdk.host.device_c.program import host_program
from xlac_sdk.host.package import Package, Packaging, Variants
from xlac_sdk.lowering.grids import grids
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target

# of each kernel, a function that takes its memory and its numbers in tables
CALLED = Template(
    """\
{% for name, buffers, sizes in kernels %}
void {{ name }}_called(void *const *memory, const int64_t *numbers)
{
    (void)numbers;
    {{ name }}({% for i in range(buffers) %}
        {{ ", " if i }}memory[{{ i }}], numbers[{{ i }}]{% endfor %}
        {% for i in range(sizes) %}, numbers[{{ buffers + i }}]{% endfor %});
}
{% endfor %}
"""
)
DRIVER = HostDriver(
    SLATE,
    "slates",
    (Path(__file__).parent / "slate_host.c").read_text(encoding="utf-8"),
    "-ldl",
    {"_GNU_SOURCE": "", "FLAGS": f'"{" ".join(FLAGS)}"'},
)


class PackagedSlate(SlateBackend):
    """The slate, whose packages have C."""

    forms, usual = FORMS, ("c", "h")
    entry_forms = ENTRY_FORMS
    records = chooses_checks = True

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        """Kernels, and functions that call them by tables."""
        ready = grids(program, target)
        text = FILE.render(made=module_text(ready, SLATE, SWAPS))
        kernels = [
            (SLATE.function(kernel.name), len(kernel.parameters), len(kernel.sizes))
            for kernel in ready.kernels
        ]
        return {"program.c": text + CALLED.render(kernels=kernels)}

    def package(self, variants: Variants, wanted: Packaging, folder: Path) -> Package:
        return text_package(self, variants, wanted, folder, DRIVER)


class HostedSlate(PackagedSlate):
    """The slate, with each program run by the host's side in C."""

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        """The driver compiles the text when it is opened."""
        ((name, text),) = sources.items()
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        text = artifact.read_text(encoding="utf-8")
        files = host_program(grids(program, target), text, DRIVER, self.name)
        return HostProgram(files, program, ["-ldl"])


BACKEND = PackagedSlate()

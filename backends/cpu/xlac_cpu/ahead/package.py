"""The forms of a package, each made from the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from xlac_cpu import hand_written
from xlac_cpu.ahead import by_hand, embed, linker, program, weights
from xlac_cpu.ahead.entry import entry
from xlac_cpu.emit import layout, module
from xlac_cpu.hand_written import is_c
from xlac_cpu.llvm import unit
from xlac_cpu.llvm.link import archive
from xlac_cpu.machine import Machine
from xlac_sdk.host.capi import (
    Api,
    WeightsOrigin,
    api_of,
    cmake_package,
    cpp_header,
    header,
    rust_module,
    weights_file,
)
from xlac_sdk.host.package import Package, Packaging, ProcessorVariant
from xlac_sdk.lowering.stop_checks import of_entries
from xlac_sdk.programs.constants import HEADER
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.sizes import arena_ends
from xlac_sdk.source import Diagnostic, UnsupportedError


def package(variants: Sequence[ProcessorVariant], wanted: Packaging, folder: Path) -> Package:
    """Writes the forms asked for; see `Backend.package`."""
    if wanted.weights is WeightsOrigin.INCBIN:
        hint = "embed puts them into the object without an assembler"
        raise UnsupportedError(
            Diagnostic("XL5011", "target 'cpu' has no use for --weights incbin", hint=hint)
        )
    making = Making(variants, wanted, folder)
    for form in making.forms:
        getattr(making, f"write_{form}")()
    library = making.shared if "so" in wanted.forms else ""
    return Package(library, making.weights_file())


@dataclass(frozen=True, eq=False)
class Making:
    """The making of one package."""

    variants: Sequence[ProcessorVariant]
    wanted: Packaging
    folder: Path

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The forms asked for, and those that they depend on: the header that others include, a
        library for CMake.
        """
        asked = self.wanted.forms
        more = ("h",) if {"hpp", "cmake"} & {*asked} else ()
        library = ("a",) if "cmake" in asked and not {"a", "so"} & {*asked} else ()
        return tuple(dict.fromkeys((*more, *library, *asked)))

    @cached_property
    def machines(self) -> tuple[Machine, ...]:
        """The machines of the variants; with several, each function names its own."""
        machines = tuple(Machine.of(v.target) for v in self.variants)
        return tuple(replace(m, tagged=True) for m in machines) if len(machines) > 1 else machines

    @cached_property
    def block(self) -> weights.ConstantBlock:
        """The constants of all variants."""
        return weights.block([v.program for v in self.variants])

    @cached_property
    def data(self) -> bytes:
        """The constants that are embedded in the code."""
        return b"" if self.api.mapped else self.block.data

    @cached_property
    def api(self) -> Api:
        """The C API, with the arena size of each variant."""
        api = api_of(self.block.program, self.wanted.weights)
        ends = (end for v in self.variants for end in arena_ends(v.program)) if api.sizes else ()
        return replace(api, arena_ends=tuple(dict.fromkeys((*api.arena_ends[:1], *ends))))

    @cached_property
    def mark(self) -> str:
        """The marker that reserves space for the constants."""
        return embed.mark(self.api.prefix, len(self.data))

    @cached_property
    def unit(self) -> unit.Unit:
        """The texts from which the object is made."""
        before = 0 if self.api.mapped else HEADER
        constants = {slot: at - before for slot, at in self.block.places.items()}
        texts = []

        def places(program: Program) -> layout.Places:
            return layout.places_ahead(program, constants, self.api.arena_start)

        for variant, machine in zip(self.variants, self.machines, strict=True):
            unit_text = module.emit(variant.program, variant.target, machine, places)
            texts.append(tuple(text for text in unit_text.values() if not is_c(text)))
        watched = [of_entries(variant.program)[0].long for variant in self.variants]
        return unit.Unit(
            entry(self.api, self.machines, len(self.data), self.mark, texts, watched),
            tuple(texts),
            self.api.functions,
            tuple(module.functions(self.variants[0].program)),
        )

    @cached_property
    def image(self) -> bytes:
        """The object file."""
        image = self.filled(unit.compiled([self.unit])[0])
        return by_hand.merged(image, self.by_hand, self.machines[0]) if self.by_hand else image

    @cached_property
    def by_hand(self) -> tuple[str, ...]:
        """Hand-written functions in C, each once: the first processor's compiler makes them."""
        first = self.variants[0]
        texts = hand_written.sources(first.program.kernels, self.machines[0]).values()
        return tuple(text for text in texts if is_c(text))

    def filled(self, image: bytes) -> bytes:
        """The object with its weights."""
        return embed.filled(image, self.mark, self.data) if self.data else image

    def weights_file(self) -> str:
        """Writes the weights file unless weights are embedded; returns its name."""
        if not self.api.mapped:
            return ""
        name = f"{self.api.prefix}.weights"
        self.write_weights(name)
        return name

    def write_weights(self, name: str) -> None:
        """Writes the weights file."""
        with (self.folder / name).open("wb") as file:
            file.writelines(weights_file(self.block.program))

    # ---- a method for each form --------------------------------------------------------------

    def write_h(self) -> None:
        """The C header."""
        (self.folder / f"{self.api.prefix}.h").write_text(header(self.api), encoding="utf-8")

    def write_hpp(self) -> None:
        """The C++ header."""
        (self.folder / f"{self.api.prefix}.hpp").write_text(cpp_header(self.api), encoding="utf-8")

    def write_rs(self) -> None:
        """The Rust module."""
        (self.folder / f"{self.api.prefix}.rs").write_text(rust_module(self.api), encoding="utf-8")

    def write_cmake(self) -> None:
        """The package that CMake finds."""
        library = f"lib{self.api.prefix}.a" if "a" in self.forms else self.shared
        (self.folder / f"{self.api.prefix}Config.cmake").write_text(
            cmake_package(self.api, library), encoding="utf-8"
        )

    def write_o(self) -> None:
        """The object."""
        (self.folder / f"{self.api.prefix}.o").write_bytes(self.image)

    def write_a(self) -> None:
        """The static library."""
        library = archive([self.image], ["model.o"], self.api.functions)
        (self.folder / f"lib{self.api.prefix}.a").write_bytes(library)

    def write_so(self) -> None:
        """The shared library."""
        self.refuse("so", self.machines[0].arch.startswith("wasm"), "wasm")
        library, exports = self.folder / self.shared, self.api.functions
        if self.by_hand:  # they may call the C library
            by_hand.shared(self.image, self.shared, exports, self.machines[0], library)
        else:
            linker.find(self.machines[0]).shared([self.image], self.shared, exports, library)

    def write_wasm(self) -> None:
        """The WebAssembly module."""
        self.refuse_by_hand("wasm")
        self.refuse("wasm", not self.machines[0].arch.startswith("wasm"), "so")
        module_file = self.folder / f"{self.api.prefix}.wasm"
        linker.find(self.machines[0]).wasm([self.image], self.api.functions, module_file)

    def write_exe(self) -> None:
        """The program that reads and writes .npy files."""
        program_file = self.folder / self.api.prefix
        program.write(self.machines[0], self.api, self.image, self.wanted.static, program_file)
        program_file.chmod(0o755)

    def write_s(self) -> None:
        """The assembly, which includes the weights file."""
        self.refuse_by_hand("s")
        text = unit.compiled([self.unit], "assembly")[0].decode()
        if self.data:
            name = f"{self.api.prefix}.weights"
            text = embed.included(text, self.mark, len(self.data), name)
            self.write_weights(name)
        (self.folder / f"{self.api.prefix}.s").write_text(text, encoding="utf-8")

    def write_ll(self) -> None:
        """LLVM's text, a file for each variant."""
        self.refuse_by_hand("ll")
        for number, texts in enumerate(self.unit.variants):
            name = f"{self.api.prefix}_{number}" if len(self.variants) > 1 else self.api.prefix
            (self.folder / f"{name}.ll").write_text("\n".join(texts), encoding="utf-8")

    @property
    def shared(self) -> str:
        """The file name of the shared library."""
        return f"lib{self.api.prefix}.so"

    def refuse_by_hand(self, form: str) -> None:
        """Raises UnsupportedError for a form of text, where part of the program is C."""
        if self.by_hand:
            problem = f"a program with a kernel in C has no form '{form}'"
            hint = "give the kernel as LLVM IR (.ll), or --no-kernels"
            raise UnsupportedError(Diagnostic("XL5011", problem, hint=hint))

    def refuse(self, form: str, wrong: bool, other: str) -> None:
        """Raises UnsupportedError for a form that the machine does not have."""
        if wrong:
            problem = f"there is no form '{form}' for {self.machines[0].triple}"
            raise UnsupportedError(
                Diagnostic("XL5011", problem, hint=f"its libraries have the form '{other}'")
            )

"""Every numbered diagnostic: what it means and what to do about it. `xlac explain XL1234` prints an entry.

XL1xxx a spec's text and schema · XL2xxx names, shapes, types · XL3xxx weights and files · XL4xxx limits ·
XL5xxx backends and targets · XL6xxx inputs of a call · XL7xxx importers · XL9xxx ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from xlac_sdk.source import Diagnostic, SourceError


@dataclass(frozen=True, slots=True)
class Entry:
    """A diagnostic's number, its title, and more about it than fits in a message."""

    code: str
    title: str
    text: str


def explain(code: str) -> str:
    """The entry of a code as text. Raises SourceError for an unknown one."""
    entry = CATALOGUE.get(code)
    if entry is None:
        close = get_close_matches(code, CATALOGUE, n=3)
        raise SourceError(Diagnostic("XL2001", f"there is no diagnostic {code}", hint=f"near it: {', '.join(close)}" if close else ""))
    return f"{entry.code}: {entry.title}\n\n{entry.text}"


def _entries(text: str) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for part in text.strip().split("\n\n"):
        head, _, body = part.partition("\n")
        code, _, title = head.partition(" ")
        assert code not in found, f"{code} is catalogued twice"
        found[code] = Entry(code, title, body)
    return found


CATALOGUE = _entries("""
XL1001 The file is not UTF-8
Specs are UTF-8 text. The place is the first byte that does not belong. Convert the file: iconv -f latin1 -t utf-8.

XL1002 The file starts with a byte-order mark
Some editors write three invisible bytes first. Save the file as UTF-8 without BOM.

XL1003 A character that YAML does not allow
Control characters and NUL cannot stand in YAML. Inside double quotes they are written as escapes such as \\u0007.

XL1004 The text is not YAML
The parser stopped here. Most often: a tab indents the line, a bracket or a quote is not closed, or text with
brackets, commas or colons stands inside {…} or […] without quotes: {x: "f32[B, 4]"}.

XL1005 A key or an anchor is given twice
Other readers of YAML keep one of the two silently. Give one of them another name.

XL1006 A tag
Tags such as !!python/object or !!int change what a value is. Specs have plain values only.

XL1007 A merge key
'<<' copies keys from elsewhere. Use a block for a part that repeats, and params for values that repeat.

XL1008 An alias without its anchor
*name repeats the value that was written with &name before it.

XL1009 A key that is not plain text
Keys are names. Lists and mappings cannot be keys.

XL1010 An unknown key
Nothing reads this key here; it is probably misspelt. `xlac schema` prints the schema for your editor.

XL1011 A key is missing
This mapping needs the key named. At the start of a spec: 'xlac: 1', the version of the format.

XL1012 A value of the wrong kind
Text, number, list and mapping are not converted into each other. Quote text that looks like a number.

XL1013 An unknown version of the format
The number behind 'xlac:' names the format, not the program. This xlac reads the version named in the message.

XL1014 Not one document
A spec is exactly one YAML document with something in it.

XL1015 A name that cannot be one
Names are printable, without '$', without spaces around them, and at most 256 characters long. Several results are
named by several names with commas between them, all different.

XL1016 Text that is not an expression
Expressions use Python's operators and calls: relu(x + 1), x @ w, softmax(x, axis=-1), x[:, 0], a if c else b.

XL1017 Outside the expression language
Expressions are a small closed language: no lambdas, comprehensions, methods or assignments. They are never run
by Python. What is called is the name of an operation.

XL1018 Text that is not a type
A type is written f32[batch, 64], or f32[] for a scalar. Element types: f64 f32 f16 bf16 i8 i16 i32 i64 u8 u16 u32
u64 bool. Sizes are numbers, names of dims, $params and arithmetic over them.

XL1019 A '$' out of place
$name is the value of a parameter; ${…} is arithmetic over parameters and dims: "${4 * width}".

XL1021 The same name twice
Two things with one name: in one graph, in files that are merged by include, or two operations that learn a tensor
of one name. Nothing hides anything else.

XL1022 Not expressible as a spec
The graph holds something that the spec language cannot say, so it cannot be written back.

XL2001 An unknown operation
`xlac ops` lists the operations. A block is used by {block: name}, an operation by {op: name} or name(…).

XL2002 An unknown value
No node, input or result has this name here. A block sees only its inputs; the body of a loop also what is around it.
Results of blocks and loops are read as layer.h, copies as layer.0.h or layer.h.last.

XL2003 An unknown parameter
`params:` declares parameters; a block has its own and sees those of the spec.

XL2004 An unknown size
`dims:` declares symbolic sizes. Names in types and in ${…} are dims or parameters.

XL2005 An unknown attribute or input
The operation or block does not have it. `xlac ops NAME` lists what it takes.

XL2006 A value that does not fit
An attribute, size or count has the wrong kind or range.

XL2007 An attribute is missing
The operation cannot do without it. `xlac ops NAME` lists what it takes.

XL2008 The wrong number of inputs
Required inputs come first; those marked '?' may be left out at the end, those marked '*' repeat.

XL2009 Shapes or types that do not fit
The message names the shapes. Shapes broadcast as in NumPy; sizes that are symbols must be the same symbol.
Element types promote (integers with floats to floats); what would lose values needs a cast.

XL2010 A cycle
Nodes need each other, so that none can be computed first. What one step hands to the next is the carry of a scan.

XL2011 An unknown block
`blocks:` declares blocks.

XL2012 The wrong number of results
A node with several results needs several names, 'a, b: split(x, parts=2)', or one is chosen: x.0.

XL2013 A declared type disagrees
The type that is written down is not the type that is computed.

XL2014 Bounds of a size
min, max, opt and multiple_of contradict each other, or a value given with --dim is outside them.

XL2015 An override that does not fit
--set names a parameter that the spec does not declare, or gives it a value of another kind.

XL2016 A parameter without a value
Its default is null: the user of the block (with:) or of the spec (--set) must give it.

XL2017 Arithmetic that has no result
Inside ${…} there are numbers, parameters, dims, + - * / // % **, comparisons, and/or/not, a if c else b, and min,
max, abs, int, float, round, ceil, floor, sqrt, log, exp, len.

XL2032 A traced function without a result
A function under xlac.jit must return a tensor, or a nest of tuples, lists and dicts of tensors.

XL3001 A file that cannot be read or written
Paths in a spec are relative to the spec's own folder.

XL3002 A path that leaves the folder
A spec reads files in its own folder and below, so that a spec from elsewhere cannot read yours. --allow-outside
lifts that.

XL3003 No weights
The model learns tensors, and the spec says neither where they are nor how to draw them:
'weights: model.safetensors', or 'weights: {init: {seed: 0}}'.

XL3004 A weights file that is wrong
It is not safetensors, it is truncated, or its header contradicts itself. Nothing of it was used.

XL3005 A missing tensor
The model needs it and no file has it. Tensors are named by node path: h1.weight, layer.0.gates.bias. Names that
differ are mapped by 'rename: {regular expression: text}'.

XL3006 A tensor of another type
The shape or element type in the file is not what the model needs.

XL3007 Tensors that nothing uses
Often a sign of a misnamed tensor. Rename them, or remove them from the file.

XL3008 A regular expression that is refused
Repetitions inside repetitions, look-around and back-references can take forever on some names.

XL3009 Two tensors of one name
Two files, or two names after renaming, give the same tensor.

XL3010 An output folder that cannot be used
It exists and holds something else, or cannot be written. Nothing was changed.

XL3011 A rule that does nothing
A rename rule, an init pattern or a pattern of train.wrt fits no tensor: it is misspelt or no longer needed.

XL3012 Not an artefact
`xlac run` and `xlac.load` take a folder that `xlac build` made; its manifest.json says what is in it.

XL3013 A damaged artefact
A file of it is missing, cut off, or not as it was written: its hash differs from the manifest's. Nothing was loaded.

XL3014 An artefact of another version
The manifest has a format that this xlac does not read.

XL3015 Weights that changed
The file of the weights was written to while the model was built, or is not the one that the artefact was built with.

XL3016 A file that is there already
A command writes over a file only when --force says so; what was made by hand is not lost by a slip.

XL4001 Out of memory
The machine could not give more memory. `xlac check` prints the parameters and the peak; smaller --dim values help.

XL4002 The disk is full
Nothing partial was left behind. Free some space, or write elsewhere with -o.

XL4011 A file that is too large
Specs hold structure. Numbers belong in a safetensors file.

XL4012 A line that is too long
No line of a spec is as long as this.

XL4013 Too many values
Aliases can expand a small file to any size; the whole document, expanded, has a limit.

XL4014 Nested too deeply
The limit keeps readers safe. Use blocks, or names for parts.

XL4015 A number that is too large
Build-time integers have at most 40 digits in text and 256 bits in arithmetic.

XL4016 An expression that is too long or too deep
Give its parts names of their own.

XL4017 Too many files
include reads at most 100 files.

XL4018 Too many operations
Blocks that use blocks multiply. A scan runs a body many times without copying it.

XL4019 A tensor that is too large
Its size in bytes does not fit 63 bits.

XL4020 More memory than allowed
--max-memory is the most that a call may take beside its inputs and outputs: the arena, state, and the weights unless they
are constants of the code. The message lists what is in memory when most is. Without it, the limit is what a process can
address.

XL4021 A size without a bound
One program for every size plans its memory for the largest: each open size needs a `max`, declared or given with
--dim NAME=LOW..HIGH.

XL4022 A variant that cannot be
--variant batch=8,past=1024 asks for steps of their own for calls of those sizes, beside those for any. It names open sizes
and values within their bounds, and takes calls that no variant before it takes.

XL4101 An unknown pass
--until and --from name a pass of the optimizer; the message lists them.

XL5001 An unknown backend
No installed package gives this target. `xlac backend list` shows what there is.

XL5002 A backend that cannot be loaded
Its package is installed but fails on import. The others work. `xlac doctor` tells more.

XL5003 A backend that is incomplete
What its entry point gives is not a Backend of this version of the SDK.

XL5004 A tool is missing
This target needs a program that is not installed, a C compiler most often.

XL5005 A number of threads that cannot be
A program runs on 1 to 1024 threads: `threads=2` in Python, `--threads 2` or XLAC_THREADS=2 on the command line.

XL5010 An operation that this target cannot do
Neither the target has it nor can it be made from what the target has.

XL5011 A form that this target does not have
Not every backend has assembly, objects or source to show, and not every machine has every form that --emit takes.

XL5012 A folder that exists already
`xlac backend new` writes into a new folder only. Choose another name, or remove the folder.

XL5020 Not expressible in this dialect
The kernel uses something that the language written for this target lacks.

XL5021 A composite that the c backend does not claim
It should have been expanded before.

XL5022 An option that the C backend does not take
Processor and triple are given to the C compiler that compiles the file.

XL5023 The C compiler refuses the file
The compiler's own words follow. If the file is as xlac wrote it, please report it.

XL5024 A compiled library that cannot be loaded
It was made for another machine, or is damaged, or refuses the memory or weights it is given. Build it again.

XL5025 A library operation that the runner does not know
The program calls an operation by a name that the device's runner has no function for.

XL5030 Training cannot be built yet
The train section of a spec is read and checked; building a training step is planned. The model itself can be built
from the spec without that section.

XL5040 An environment variable that makes no sense
XLAC_THREADS is a number of threads, XLAC_CACHE_BYTES a number of bytes, XLAC_CACHE a folder or the word off.

XL5041 The cache is off
XLAC_CACHE=off says to keep nothing on disk; unset it, or name a folder.

XL5101 An unknown processor
--cpu takes LLVM's names: skylake-avx512, znver4, cortex-a53, …

XL5102 An unknown triple
--triple takes four parts: aarch64-unknown-linux-gnu, armv7-unknown-linux-gnueabihf, …

XL5103 A kernel that is made for a GPU
It uses blocks of threads, which a CPU has not.

XL5104 A composite that the cpu backend does not claim
It should have been expanded before.

XL5105 A parallel loop of unknown length
Its range must be known before it runs.

XL5106 Arithmetic that the processor lacks
This element type or operation has no instruction or expansion there.

XL5107 LLVM cannot compile for this target
Its reason follows.

XL5108 An artefact that cannot be linked or loaded
Build it again.

XL5109 An artefact of another machine
It was compiled for a processor that this one is not.

XL5110 Too many threads
Ask for no more than the pool can have.

XL5111 The linker refuses the objects
Its own words follow. What it misses may be functions that compilers call for arithmetic a processor lacks: libgcc has
them.

XL5112 Processors between which nothing can choose
An artefact for several processors asks the one it runs on. It can tell the levels of x86-64 apart: --cpu
x86-64-v2,x86-64-v3,x86-64-v4.

XL5201 An option that the cuda backend does not take
--arch names the architecture to compile for (sm_80, sm_90a, …), one at a time; --cpu and --triple are for processors.

XL5202 An unknown GPU architecture
--arch takes CUDA's names, from Ampere on: sm_80, sm_86, sm_89, sm_90a, sm_100a, …

XL5203 No GPU to compile for
Without --arch the cuda backend compiles for the GPU of this machine. Writing text and code needs none: give --arch.

XL5204 An architecture that the installed CUDA compiler does not know
A newer toolkit, or a newer package nvidia-cuda-nvrtc, has it.

XL5210 No CUDA driver
Programs for GPUs are written and compiled anywhere, and run where NVIDIA's driver is: libcuda.so.1 was not found. In a
container the driver comes from the host (`docker run --gpus all`).

XL5211 No GPU that can be used
The driver is there and finds no GPU, or not the one of the number asked for. nvidia-smi lists them; CUDA_VISIBLE_DEVICES
may hide some.

XL5212 A driver that is too old
It does not know functions that xlac asks for (CUDA 12.0), or code as new as this. Install a newer driver, or compile
with an older toolkit.

XL5213 Code for another GPU
Machine code runs on the architecture that it was compiled for. --arch names it; without it, this machine's is taken.

XL5214 Not enough memory on the GPU
What a program needs is known before anything is allocated: weights, temporaries (one arena), state, and room for inputs and
outputs that are not on the GPU. The message has the sums and the largest tensors. Smaller sizes, or a GPU with more.

XL5215 A kernel that failed
It accessed memory that is not its own, or did something else that the GPU stops at. With XLAC_CUDA_BLOCKING=1 kernels run one
by one and the message names the kernel and the line of the spec that it computes. Nothing more runs on the GPU in the process.
Inputs that break what the spec says of them can be the cause; if they do not, please report it.

XL5216 A GPU that was lost
It stopped: an uncorrectable memory error, a reset, a cable, a hang. The process cannot use it any more; others may, when
nvidia-smi shows it again.

XL5217 A call of the CUDA driver, or of a library of NVIDIA's, that failed
The message has the call and the driver's or the library's own words.

XL5220 A library that the program calls is not installed
The program was compiled to call cuBLASLt for its large matrix products (--arch sm_90a+cublaslt; the manifest says so under
`needs`). It is in the package nvidia-cublas and in CUDA toolkits. Without +cublaslt every product is a kernel.

XL5221 A library that is too old, or cannot use this GPU
cuBLASLt of CUDA 12 or later is asked for, and a driver that it takes. NVIDIA's words are in the message.

XL5222 A product that cuBLASLt does not compute
It has no algorithm for these types, sizes and alignments on this GPU. Without +cublaslt every product is a kernel.

XL6001 The wrong inputs
An input or output is missing, unknown or given twice. `xlac check` lists them.

XL6002 The wrong element type
Arrays are not converted silently: x.astype(…) makes the copy visible.

XL6003 The wrong shape
The message says what the model takes. Symbolic sizes must agree between inputs, and lie within their bounds.

XL6004 An output array that cannot be written
It must be a NumPy array of the right type, C-contiguous, aligned, writable, and apart from the inputs.

XL6005 Text that is not an array
Inputs on the command line: random, zeros, @file.npy, or 2x64xf32=1,2,…

XL6006 An array on another GPU
A program runs on one GPU, and its arrays are there, or in the host's memory.

XL7001 A file that is no ONNX model
It is truncated, or is not a protobuf of the kind.

XL7002 An ONNX operator that is not supported
docs/ONNX.md lists those that are, with their versions. The hint names the nearest.

XL7003 A size that data decides, where that cannot be
Outputs may have sizes that the model computes (NonZero, Unique, NonMaxSuppression, …), and element-wise operators take them;
the node named here needs to know its sizes when the model is compiled.

XL7004 An ONNX node that makes no sense
Its inputs or attributes do not fit its operator. The message has the node's and its outputs' names in the model.

XL7005 An input or output of a type that is not supported
Tensors of numbers are, and sequences and optionals of them; text, maps and sparse tensors are not.

XL7006 Sizes depend on the value of an input
The model reads a shape, a count or an axis from this input. `xlac.compile` compiles for each value that it meets;
what is built ahead of time needs it given: --set name=value, with a list as [1, 2, 3].

XL7007 A model that is too large to be imported
Functions that call functions, unrolled loops, or constants that a small file spreads out come to more than the limit.

XL7201 Text that is not MLIR
The reader stopped here. It reads both forms of StableHLO, CHLO and func, as JAX, torch_xla and stablehlo-opt print them.

XL7202 An operation that StableHLO does not have
docs/STABLEHLO.md lists those that are read. Other dialects must be lowered to StableHLO first.

XL7203 A StableHLO operation that makes no sense
Its operands, attributes or regions do not fit it, or do not give the type that the text says.

XL7204 A name that is not defined, or twice
Values, functions and resources are defined once, before they are used; a region sees the names around it.

XL7205 A StableHLO module that is too large
Nesting, constants and operations have limits; an operation counts each time that its function is called.

XL7207 A module without a main function
The function 'main', or the only one that is not private, is the model; it must give a tensor.

XL7208 An operation that one device cannot run
Collectives, sends and receives, infeeds and outfeeds speak to somebody else while the program runs.

XL7209 An unknown custom call
Its target is a function outside of StableHLO. Enter its meaning: xlac.frontends.stablehlo.CUSTOM_CALLS[target] = builder.

XL7210 jaxlib is missing
Bytecode is read by jaxlib's bindings: pip install 'xlac[stablehlo]'. Text needs nothing.

XL7211 Bytecode that cannot be read
It is truncated, no portable artifact, or of a version that the installed jaxlib does not know.

XL7212 A size that is not known
Sizes follow from constants and from the sizes of inputs. Fix the input that decides it with params, or a size with dims.

XL7213 JAX is missing
xlac.from_jax lowers functions with JAX itself: pip install 'xlac[jax]'.

XL7301 An ATen operation that is not supported
`xlac check model.pt2` lists all of them; docs/PYTORCH.md says which there are. torch.compile(…, backend="xlac") leaves
them to PyTorch.

XL7302 A use of an ATen operation that is not supported
The operation is there, but not with these arguments: the message says what stands in the way.

XL7303 A program without a result
It must return at least one tensor.

XL7304 An input of a program that is not a tensor
Programs with script objects or tokens as inputs cannot be imported.

XL7305 PyTorch is missing
Files of torch.export are read by PyTorch itself: pip install 'xlac[torch]'.

XL7306 A file that is no program of torch.export
Files with the suffix .pt2 are those that torch.export.save writes.

XL7307 An unknown option of torch.compile
torch.compile(model, backend="xlac", options={…}) takes target, threads, precision and fallback.

XL7008 Two values of one name
In an ONNX graph each name is given a value once.

XL7009 An operator set that is newer than this importer
The meaning of its operators may have changed. Convert the model with onnx.version_converter, or take a newer xlac.

XL7401 Not expressible as ONNX
Every node is listed whose meaning no operator of ONNX has, alone or together with others. What is listed may be computed
before or after the part that is exported.

XL7402 Not expressible as StableHLO
Every node is listed that StableHLO cannot say.

XL9001 A bug in xlac
Please report it with the traceback.

XL9003 Formatting would change a file
`xlac fmt` reads what it wrote before it replaces anything, and the two differed. The file was left alone. Please report it.

XL9101 LLVM refuses what xlac wrote
Please report it.

XL9201 CUDA's compiler refuses what xlac wrote
The message names the kernel and the lines of the spec that it computes. Please report it.

XL9102 No room for the weights
LLVM made an object without the place that was left for the weights. Please report it.
""")

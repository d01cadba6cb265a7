# `make demo` and `make test` set up everything they need in .venv; a fresh machine needs Python 3.11 and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests start hundreds of processes that import the same files: without their bytecode a quarter of a second more each.
unexport PYTHONDONTWRITEBYTECODE
DISTRIBUTIONS := -e backend_sdk -e runtime -e backends/reference -e backends/c -e backends/cpu -e backends/cuda -e backends/opencl
BUILD_SYSTEM := "hatchling>=1.24" "editables>=0.5"
PROJECTS := pyproject.toml $(wildcard backend_sdk/pyproject.toml runtime/pyproject.toml backends/*/pyproject.toml)

.PHONY: demo test test-all test-cost test-bare cuda test-opencl test-onnx test-tflite test-keras test-tf test-cross test-mpi test-fleets test-serve test-jax test-gradients lint types specs conformance pycuda test-cuda test-gpu gpu-wheels test-report report-assets verify-models verify-architectures test-export fuzz fuzz-inputs stress stress-leaks stress-ranks docs site bless bench-setup bench bench-own bench-gpu clean test-torch

demo: $(VENV)/.installed ## build specs/digits.yaml for this CPU and classify the real test images
	$(BIN)/python demo.py

test: $(VENV)/.tested lint types ## lint, types, import contracts and every test; under ten minutes on two cores
	$(BIN)/python -m pytest -n 2 --dist worksteal tests

test-all: $(VENV)/.tested ## every case of every test, also those of which `make test` runs a sample: an hour and a half
	$(BIN)/python -m pytest -n 2 --dist worksteal --all tests

test-cost: $(VENV)/.tested ## the processor seconds of `make test` by folder, file and test: what to look at when it has become slow
	$(BIN)/python -m pytest -n 2 --dist worksteal --cost tests

BARE ?= /var/tmp/xlac-bare

test-bare: ## `make demo` and `make test` in a root of its own with Python, make and nothing else; wants root, debootstrap and a network
	tests/bare/run.sh $(BARE)

lint: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/lint-imports

types: $(VENV)/.tested
	$(BIN)/mypy

specs: $(VENV)/.tested ## every shipped spec on every backend, the large ones interpreted too: minutes
	$(BIN)/python -m pytest -n 2 tests/specs --all

# Emulators, linkers and the C libraries of other machines, as Debian calls them; node runs WebAssembly.
CROSS := clang lld qemu-user qemu-system-arm gcc-arm-none-eabi libnewlib-arm-none-eabi nodejs valgrind \
  $(foreach machine,arm-linux-gnueabihf aarch64-linux-gnu riscv64-linux-gnu,gcc-$(machine)) \
  libc6-dev-armhf-cross libc6-dev-arm64-cross libc6-dev-riscv64-cross

test-cross: $(VENV)/.tested ## ahead of time for other machines, run here by emulators; installs them, so it wants root
	dpkg -s $(CROSS) >/dev/null 2>&1 || { apt-get update && apt-get install -y --no-install-recommends $(CROSS); }
	$(BIN)/python -m pytest -n 2 --dist worksteal --cross tests/cross

test-mpi: $(VENV)/.tested ## models among two to four processes that mpirun starts; installs OpenMPI where there is none, so it may want root: two to three processor minutes
	command -v mpirun mpicc >/dev/null || { apt-get update && apt-get install -y --no-install-recommends openmpi-bin libopenmpi-dev; }
	$(BIN)/python -m pytest --mpi -rs tests/mpi

test-fleets: $(VENV)/.tested ## a model over many rows by the workers of Dask and Ray, some of them killed: two minutes
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[fleets,ray]"
	$(BIN)/python -m pytest --all -rs tests/fleet

test-serve: $(VENV)/.tested ## models on MLServer, asked by tritonclient over HTTP and gRPC: two minutes
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test-serve]"
	$(BIN)/python -m pytest --all -rs tests/serving

test-onnx: $(VENV)/.tested ## whole ONNX models beside ONNX Runtime: minutes; transformers too where PyTorch is installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check onnxruntime
	! $(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check "transformers>=5" onnxscript
	$(BIN)/python -m pytest --all tests/onnx/test_onnx_models.py

test-tflite: $(VENV)/.tested ## every operator of TensorFlow Lite beside LiteRT's reference kernels; some minutes
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test-tflite]"
	PYTHONPATH=tests/tflite $(BIN)/python tests/tflite/record.py --check
	PYTHONPATH=tests/tflite $(BIN)/python tests/tflite/sweep_pairs.py
	$(BIN)/python -m pytest -n 2 --all tests/tflite

KERAS_VENV := $(CURDIR)/.venv-tensorflow

$(KERAS_VENV)/.installed:
	$(PYTHON) -m venv $(KERAS_VENV)
	$(KERAS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check "tensorflow-cpu>=2.21" "keras>=3.15"
	touch $@

test-tf: $(VENV)/.tested $(KERAS_VENV)/.installed ## functions of TensorFlow and SavedModels, and models of its converter, in the environment that has TensorFlow: ten minutes, which installs it
	$(KERAS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check pytest pytest-timeout $(DISTRIBUTIONS) -e .
	$(KERAS_VENV)/bin/python -m pytest --noconftest tests/tf_functions

test-keras: $(VENV)/.tested $(KERAS_VENV)/.installed ## every layer of Keras and keras.applications beside Keras, which has an environment of its own; converts the latter for TensorFlow Lite too: hours, and goes on where it was stopped
	$(KERAS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check scipy $(DISTRIBUTIONS) -e .
	$(KERAS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps tf_keras  # it would install a second TensorFlow
	PYTHONPATH=tests/keras $(KERAS_VENV)/bin/python tests/keras/record.py --check
	$(KERAS_VENV)/bin/python tests/keras/record_keras2.py --check
	$(BIN)/python tests/keras/each_application.py out/applications $(KERAS_VENV)/bin/python
	$(BIN)/python -m pytest --all tests/keras

cuda: $(VENV)/.tested ## every shipped spec and conformance case compiled for GPUs that need not be there; minutes
	$(BIN)/python -m pytest -n 2 --all tests/cuda/text

pycuda: $(VENV)/.tested ## builds pycuda where `pip install pycuda` cannot (a minute), and installs it; needs CUDA's headers, no GPU
	$(BIN)/python -m pip install --quiet --disable-pip-version-check mako pytools
	$(BIN)/python backends/cuda/pycuda_wheel.py out/wheels
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps out/wheels/pycuda-*.whl

test-cuda: $(VENV)/.tested ## every case of the cuda backend on the stand-in for a GPU, and with every access watched: minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal --all tests/cuda

POCL := pocl-opencl-icd ocl-icd-libopencl1 ocl-icd-opencl-dev

test-opencl: $(VENV)/.tested ## every case of the opencl backend on pocl, which runs OpenCL on processors; installs it, so it wants root: minutes
	dpkg -s $(POCL) >/dev/null 2>&1 || { apt-get update && apt-get install -y --no-install-recommends $(POCL); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e "backends/opencl[run]"
	$(BIN)/python -m pytest -n 2 --dist worksteal --all tests/opencl

GPU_PYTHON ?= $(BIN)/python
GPU_WHEELS ?= .whl
GPU_TESTS ?= $(addprefix tests/cuda/,$(addprefix test_cuda_,gpu.py specs.py conformance.py) $(addprefix libraries/test_cuda_,cublaslt.py cudnn.py))
GPU_JOBS ?= 4

test-gpu: $(if $(findstring $(BIN),$(GPU_PYTHON)),$(VENV)/.tested) ## everything on this machine's GPU: conformance, compute-sanitizer, float64, other libraries
	$(GPU_PYTHON) -m pytest -n $(GPU_JOBS) --dist worksteal --gpu --all -rs $(GPU_TESTS)

GPU_RECORD := bench/gpu/results/$(shell date +%F)

bench-gpu: $(if $(findstring $(BIN),$(GPU_PYTHON)),$(VENV)/.installed) ## xlac beside PyTorch and JAX on this machine's GPU, recorded in bench/gpu/results; twenty minutes
	mkdir -p $(dir $(GPU_RECORD))
	$(GPU_PYTHON) bench/gpu/host.py --gpu > $(GPU_RECORD)-host.txt
	$(GPU_PYTHON) bench/gpu/run.py --logs out/gpu --out $(GPU_RECORD).json > $(GPU_RECORD).md
	cat $(GPU_RECORD)-host.txt $(GPU_RECORD).md

gpu-wheels: $(VENV)/.tested ## what `make test-gpu` needs on a machine without a network: bench/gpu/README.md says how it is used there
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(GPU_WHEELS) . ./backend_sdk ./backends/reference ./backends/c ./backends/cpu ./backends/cuda
	$(BIN)/python -m pip download --quiet --only-binary=:all: --python-version 3.12 --implementation cp --platform manylinux_2_28_x86_64 \
	  --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --dest $(GPU_WHEELS) pydantic ruamel.yaml click platformdirs

conformance: $(VENV)/.tested ## every op and kernel case on every installed backend, with a report
	for target in reference c cpu; do $(BIN)/xlac backend test $$target || exit 1; done

test-export: $(VENV)/.tested ## every op sample, spec and 200 random graphs through ONNX and StableHLO; minutes, with the extra test-export installed
	XLAC_EXPORT_ALL=1 $(BIN)/python -m pytest -n 2 tests/exporters

fuzz: $(VENV)/.tested ## 2,000 random graphs: fusion on, fusion off and float64 agree
	XLAC_FUZZ_GRAPHS=2000 $(BIN)/python -m pytest -n 2 --all tests/fuzz tests/autodiff/test_autodiff_random.py

SECONDS ?= 1200
TARGETS ?=

stress: $(VENV)/.tested ## 100 rounds of 8 processes on one cache, killed at random, entries damaged and weights replaced meanwhile; 20 minutes
	$(BIN)/python tests/stress/cache.py

stress-leaks: $(VENV)/.tested ## thirteen kinds of work over and over: no memory, file, thread, map or temporary file is left behind; 30 minutes
	$(BIN)/python tests/stress/leaks.py

stress-ranks: $(VENV)/.tested ## 200 ranks that are killed or stop, and links that are cut (as root), while a model is trained by mpirun: nobody hangs, no checkpoint is lost; an hour or two, goes on where it was (MINUTES ends it)
	PYTHONPATH=tests/mpi $(BIN)/python tests/stress/ranks.py out/stress-ranks --minutes $(MINUTES)

fuzz-inputs: $(VENV)/.tested ## readers of files, each given inputs that nobody would write for SECONDS; tests/fuzz/README.md
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[fuzz]"
	PYTHONPATH=tests:tests/fuzz $(BIN)/python -m harness.fuzz --seconds $(SECONDS) --targets "$(TARGETS)" --jobs 2

test-torch: $(VENV)/.tested ## PyTorch's own samples of every operator, every model and size; an hour
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[torch,test-torch]"
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/pytorch tests/verify/test_verify_torch.py --all

MINUTES ?= 600

verify-architectures: $(VENV)/.tested ## 99 architectures of transformers by torch.compile, beside eager PyTorch's error: half an hour of one core; goes on where it was (MINUTES ends it)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[torch,test-torch]"
	$(BIN)/python tests/pytorch/architectures/verify_architectures.py --minutes $(MINUTES)

verify-models: $(VENV)/.tested ## `xlac verify` over 700 models that others wrote, none of which may be found wrong: an hour of two cores; goes on where it was (MINUTES ends it)
	$(BIN)/python tests/verify/models.py --minutes $(MINUTES)

test-gradients: $(VENV)/.tested ## every derivative on every CPU target beside f64 and differences: every sample, type and form of control; half an hour of one core
	$(BIN)/python -m pytest -n 2 --dist worksteal --all tests/autodiff

test-jax: $(VENV)/.tested ## JAX's own cases for its primitives, compared with XLA's CPU client, and their derivatives with JAX's: fifteen minutes of one core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[jax]"
	XLAC_CACHE=off $(BIN)/python tests/stablehlo/harnesses.py
	$(BIN)/python tests/jax_derivatives/harness_derivatives.py

test-report: $(VENV)/.tested ## reports in a headless Chromium; installs it where it is not there, so it may want root: a minute
	command -v chromium chromium-browser google-chrome >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test-report]"
	$(BIN)/python -m pytest --all -rs tests/report

REPORT_VENDOR := toolchain/xlac/debug/report/page/vendor

report-assets: ## the libraries in reports, from the npm registry as the lock says; wants npm
	rm -rf out/report-assets && mkdir -p out/report-assets && cp $(REPORT_VENDOR)/package.json $(REPORT_VENDOR)/package-lock.json out/report-assets
	cd out/report-assets && npm ci --ignore-scripts --no-audit --no-fund
	cp out/report-assets/node_modules/d3/dist/d3.min.js out/report-assets/node_modules/elkjs/lib/elk-worker.min.js $(REPORT_VENDOR)
	cp out/report-assets/node_modules/elkjs/LICENSE.md $(REPORT_VENDOR)/elkjs-LICENSE.md

docs: $(VENV)/.tested ## regenerate what is generated
	$(BIN)/python -m xlac.ops.reference > docs/OPS.md
	$(BIN)/python -m xlac.frontends.onnx.reference docs/ONNX.md
	$(BIN)/python -m xlac.frontends.stablehlo.coverage docs/STABLEHLO.md
	$(BIN)/python -m xlac.frontends.tflite.reference docs/TFLITE.md
	$(BIN)/python -m xlac.frontends.keras.reference docs/KERAS.md
	$(BIN)/python -m xlac.ops.error_bounds docs/SPEC.md
	$(BIN)/xlac schema -o docs/xlac-spec-1.schema.json

site: $(VENV)/.tested ## the documentation as a web site, in out/site/site: no page loads anything from elsewhere; half a minute
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "mkdocs-material>=9.8"
	NO_MKDOCS_2_WARNING=1 $(BIN)/python docs/site/build.py

bless: $(VENV)/.tested ## accept the present output as the goldens
	$(BIN)/python -m pytest -n 2 tests --bless

PEERS ?= suite ort openvino jax torch iree
BENCH ?= --minutes 120
WORK := $(CURDIR)/bench/.work
PEER_VENVS := $(CURDIR)/bench/.venvs
SUITE := cd bench && SUITE_VENVS=$(PEER_VENVS) $(PEER_VENVS)/suite/bin/python -m

bench-setup: $(VENV)/.installed ## the peers' environments and the rows' models and arrays; ten minutes, mostly downloads; what is there is kept
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[onnx]"
	$(BIN)/python -m compileall -q toolchain/xlac backend_sdk/xlac_sdk backends/cpu/xlac_cpu # as installing does for the peers
	PYTHON=$(PYTHON) bench/peers/setup.sh $(PEER_VENVS) $(PEERS)
	$(SUITE) suite.run --work $(WORK) --make || true # a row that cannot be made is said, and the others are measured

bench: bench-setup ## xlac beside its peers on the whole suite, 1 and 2 threads, recorded in bench/results/suite; two hours, goes on where it was
	$(SUITE) suite.run --work $(WORK) $(BENCH)
	$(SUITE) suite.recorded $(WORK) results/suite

bench-own: $(VENV)/.installed ## processes of xlac cold and warm, memory against its bound, a call from C: two minutes, after bench-setup
	$(BIN)/python bench/own.py $(WORK)/models $(WORK)/own.json mlp_small tiny_ops_150 lstm_stack_scan gpt2_block_decode bert_layer mobilenet_v2 resnet50

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(PROJECTS) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(DISTRIBUTIONS) -e .
	touch $@

# One call for what `.installed` and the tests need; the build system is installed once, not for each package.
$(VENV)/.tested: $(PROJECTS) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(BUILD_SYSTEM)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation $(DISTRIBUTIONS) -e ".[test]"
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis

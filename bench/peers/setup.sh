#!/bin/bash
# Makes one virtual environment per peer under DIR, one after the other, and links xlac's own beside them.
# setup.sh DIR [PEER ...]    PEER: suite ort jax openvino torch iree tvm tinygrad (default: all); one that is there is kept
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venvs=${1:?usage: setup.sh DIR [PEER ...]}; shift
wanted=${*:-suite ort jax openvino torch iree tvm tinygrad}
make() {
    name=$1; shift
    case " $wanted " in *" $name "*) ;; *) return 0 ;; esac
    [ -e "$venvs/$name/.ready" ] && return 0
    rm -rf "${venvs:?}/$name"
    "${PYTHON:-python3}" -m venv "$venvs/$name"
    "$venvs/$name/bin/pip" install -q --no-input --disable-pip-version-check "$@"
    touch "$venvs/$name/.ready"
    echo "$name: $*"
}
mkdir -p "$venvs"; venvs=$(cd "$venvs" && pwd)
make suite onnx==1.23.2 numpy==2.4.6
make ort onnxruntime==1.31.1 numpy==2.4.6
make jax jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
make openvino openvino==2026.4.1 numpy==2.4.6
make torch torch==2.13.0 numpy==2.4.6
make iree iree-base-compiler==3.13.0 iree-base-runtime==3.13.0 onnx==1.23.2 numpy==2.4.6
make tvm apache-tvm==0.27.0.post1 onnx==1.23.2 numpy==2.4.6
make tinygrad tinygrad==0.14.0 onnx==1.23.2 numpy==2.4.6
ln -sfn "$here/../../.venv" "$venvs/xlac"

#!/bin/bash
# Makes one virtual environment per peer under DIR, two at a time, and links xlac's own beside them.
# setup.sh DIR [PEER ...]    PEER: suite ort openvino jax torch iree tvm tinygrad (default: all but the last two); one that is there is kept
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venvs=${1:?usage: setup.sh DIR [PEER ...]}; shift
wanted=${*:-suite ort openvino jax torch iree}
running=0
make() {
    name=$1; shift
    case " $wanted " in *" $name "*) ;; *) return 0 ;; esac
    [ -e "$venvs/$name/.ready" ] && return 0
    if [ $running -ge 2 ]; then wait -n; running=$((running - 1)); fi
    {
        begin=$(date +%s)
        rm -rf "${venvs:?}/$name"
        "${PYTHON:-python3}" -m venv "$venvs/$name"
        # bytecode is made by all cores afterwards: without it a contender's first process would be slower than its others
        "$venvs/$name/bin/pip" install -q --no-input --no-compile --disable-pip-version-check "$@"
        "$venvs/$name/bin/python" -m compileall -q -j 0 "$venvs/$name/lib" >/dev/null 2>&1 || true
        touch "$venvs/$name/.ready"
        echo "$name, $(($(date +%s) - begin)) s: $*"
    } &
    running=$((running + 1))
}
mkdir -p "$venvs"; venvs=$(cd "$venvs" && pwd)
make torch torch==2.13.0 torchvision==0.28.0 transformers==5.24.0 onnx==1.23.2 onnxscript==0.7.2 pyyaml numpy==2.4.6
make suite onnx==1.23.2 onnxruntime==1.31.1 sympy pyyaml numpy==2.4.6
make jax jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
make openvino openvino==2026.4.1 numpy==2.4.6
make ort onnxruntime==1.31.1 numpy==2.4.6
make iree iree-base-compiler==3.13.0 iree-base-runtime==3.13.0 onnx==1.23.2 numpy==2.4.6
make tvm apache-tvm==0.27.0.post1 onnx==1.23.2 numpy==2.4.6
make tinygrad tinygrad==0.14.0 onnx==1.23.2 numpy==2.4.6
wait
ln -sfn "$here/../../.venv" "$venvs/xlac"
for name in $wanted; do
    [ -e "$venvs/$name/.ready" ] || { echo "$name could not be installed" >&2; exit 1; }
done

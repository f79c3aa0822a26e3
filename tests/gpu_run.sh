#!/usr/bin/env bash
# What to run on a machine with an NVIDIA GPU, in order and within six minutes by its limits; all of it lands in one folder.
#
#   tests/gpu_run.sh OUT
#
# 1. The kernels agree with fp32; a wrong result ends the run. 2. A sweep: its core first (caches warm and cold, 96 to 256
# rows at 0.5 GB of KV, MLA at q 1 to 8), then GQA at both sides of every tile edge, then what the fit is least sure of.
# 3. A decode step of an 8B model, predicted by the new profile. The same path on a CPU, with a model that fits it:
#
#   DEVICE=cpu MINUTES=0.3 MODEL=small.yaml tests/gpu_run.sh OUT
set -euo pipefail
refuse() { echo "gpu_run.sh: $1" >&2; exit 2; }

out=$(realpath -m "${1:?usage: tests/gpu_run.sh OUT}")
[ -z "${MODEL:-}" ] || [ -f "$MODEL" ] || refuse "MODEL: no such file: $MODEL"
model=${MODEL:+$(realpath "$MODEL")}
python=${PYTHON:-python} device=${DEVICE:-cuda} minutes=${MINUTES:-3}
[ "$device" = cuda ] || [ "$device" = cpu ] || refuse "DEVICE: cuda or cpu, not '$device'"
[[ $minutes =~ ^[0-9]+(\.[0-9]+)?$ && $minutes =~ [1-9] ]] || refuse "MINUTES: a number above 0, not '$minutes'"
cd "$(dirname "$0")/.."
mkdir -p "$out"
started=$SECONDS
if [ -z "$model" ]; then
    model=$out/8b.yaml
    cat >"$model" <<'YAML'
target: llama-3.1-8b
gpu: h200-sxm       # replaced by the profile of the sweep
workload: {batch: [1, 16], context_tokens: [2k, 16k]}
drafters: [{mechanism: eagle3, acceptance: {alpha: 0.7}}]
YAML
fi

within() {      # SECONDS COMMAND...: a step that runs out of time is said and left, one that fails ends the run
    local code=0
    timeout "$@" || code=$?
    [ "$code" = 124 ] && echo "stopped after $1 s: ${*:2}" || return "$code"
}

within 80 "$python" -m pytest tests/microbench/test_on_gpu.py -k agree -p no:cacheprovider | tee "$out/correct.txt"
"$python" -m specplan sweep --device "$device" --minutes "$minutes" -o "$out/sweep"
within 85 "$python" -m specplan validate step --model "$model" --gpu "$out/sweep/profile.yaml" --device "$device" |
    tee "$out/step.txt"
echo "$((SECONDS - started)) s; results in $out"

#!/usr/bin/env bash
# Installs scaffold into .venv, then converts an example: shows the patch, proves it, and starts the result with torchrun.
set -euo pipefail
cd "$(dirname "$0")"

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

./install.sh
export PATH="$PWD/.venv/bin:$PATH" OMP_NUM_THREADS=1
result=$(mktemp -d)

show scaffold convert examples/siamese/train.py --diff --quiet
show scaffold convert examples/siamese/train.py --verify -o "$result"
cd "$result"
show torchrun --standalone --nproc-per-node=2 train.py
printf '\nThe converted script is in %s\n' "$result"

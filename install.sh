#!/usr/bin/env bash
# Installs scaffold and what its tests need into a virtual environment: ./install.sh [folder, default .venv]
# The one place that decides which torch is taken: the CPU build, or PyPI's own where a GPU is at hand.
set -euo pipefail

venv=${1:-.venv}
project=$(cd "$(dirname "$0")" && pwd)
torch=torch==2.13.0
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "install.sh: $python is older than 3.11, or missing; name another one: PYTHON=python3.12 ./install.sh" >&2
    exit 2
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "install.sh: $python has no venv module; install it (Debian: apt-get install python3-venv)" >&2
    exit 2
fi
"$python" -m venv "$venv"
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)

if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    "${pip[@]}" install "$torch"
elif ! "${pip[@]}" install --retries 0 --timeout 10 --index-url https://download.pytorch.org/whl/cpu "$torch" 2>/dev/null; then
    "${pip[@]}" install "$torch"
fi
"${pip[@]}" install -e "$project[dev]"

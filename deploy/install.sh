#!/bin/sh
# Makes the virtual environment named by $1 and installs what requirements-dev.txt pins, each file checked by its hash.
# PYTHON may name the interpreter to use.
set -eu

venv=$1
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# A name on the PATH may be a stub that cannot run: ask each what it is.
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for name in ${PYTHON:-python3.11 python3.12 python3.13 python3 python}; do
        if is_new_enough "$name"; then
            say "$name"
            return
        fi
    done
}

if [ ! -x "$venv/bin/python" ] || ! is_new_enough "$venv/bin/python" || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    [ -n "$python" ] || fail "Python 3.11 or newer is needed and was not found${PYTHON:+ as $PYTHON}; install it, or name it with PYTHON=..."
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        fail "$python cannot make virtual environments; install the package python$version-venv (Debian, Ubuntu), or name another Python with PYTHON=..."
    fi
    say "Making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

say "Installing the pinned packages into $venv (once; about a minute)"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --no-input --quiet "$@"; }
pip install --require-hashes --requirement requirements-dev.txt ||
    fail "the packages could not be installed; the reason is above"
# A second call: pip wants a hash for everything in the first, and the project itself has none.
pip install --no-deps --no-build-isolation --editable . ||
    fail "the project could not be installed; the reason is above"
cp requirements-dev.txt "$venv/.installed"

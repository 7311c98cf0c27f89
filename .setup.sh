#!/bin/sh
# Makes .venv with the pinned dependencies; does nothing when that is already done.
# Everything it writes lies below this folder, whose path may hold spaces.
set -eu

say() { printf '%s\n' "$*" >&2; }

# Python 3.14 comes last: all dependencies have it, but this project is tested with 3.11 to 3.13.
find_python() {
    for range in "(3, 11) <= v < (3, 14)" "(3, 14) <= v < (3, 15)"; do
        for name in python3 python3.13 python3.12 python3.11 python3.14 python; do
            if command -v "$name" >/dev/null 2>&1 &&
                "$name" -c "import sys; v = sys.version_info[:2]; sys.exit(not $range)" >/dev/null 2>&1; then
                command -v "$name"
                return 0
            fi
        done
    done
    return 1
}

check_python() {
    if ! python=$(find_python); then
        say "No Python 3.11, 3.12, 3.13 or 3.14 on the PATH ($(python3 --version 2>/dev/null || echo 'no python3')): install one, e.g. 'apt-get install python3.11-venv', and run this again."
        exit 1
    fi
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        say "$python cannot make virtual environments: install its venv package, e.g. 'apt-get install python3-venv', and run this again."
        exit 1
    fi
}

check_java() {
    java=java
    where="on the PATH"
    if [ -n "${JAVA_HOME:-}" ]; then
        java="$JAVA_HOME/bin/java"
        where="in JAVA_HOME ($JAVA_HOME)"
    fi
    version=$("$java" -XX:-UsePerfData -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1) || version=
    if [ "${version:-0}" -lt 17 ]; then
        say "Spark needs Java 17 or newer, and there is ${version:+only Java }${version:-no Java} $where: install one, e.g. 'apt-get install openjdk-17-jdk-headless', or set JAVA_HOME, and run this again."
        exit 1
    fi
}

check_python
check_java

# Scripts of a virtual environment hold its path, so a moved folder needs a new one, as does another Python.
base="$PWD, $("$python" --version)"
wanted=$( (printf '%s\n' "$base" && cat pyproject.toml .constraints.txt .setup.sh) | cksum)
holds() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }
if [ -x .venv/bin/python ] && holds .venv/.installed "$wanted"; then exit 0; fi

mkdir -p .cache/tmp
log=.cache/setup.log
say "Setting up .venv with $("$python" --version): two or three minutes, once. Details are in $log."

# The user's index, proxy and certificates stay; what would put packages elsewhere or choose others does not.
unset PIP_TARGET PIP_PREFIX PIP_ROOT PIP_NO_DEPS PIP_CONSTRAINT PIP_REQUIREMENT PIP_REQUIRE_HASHES PIP_DRY_RUN || true
export PIP_USER=0 PIP_CACHE_DIR="$PWD/.cache/pip" TMPDIR="$PWD/.cache/tmp" PIP_DISABLE_PIP_VERSION_CHECK=1

if ! holds .venv/.base "$base" || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --clear .venv >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
    printf '%s\n' "$base" >.venv/.base
fi
rm -f .venv/.installed
if ! .venv/bin/python -m pip install --no-input --no-compile -c .constraints.txt -e '.[dev,demo,docs,s3]' >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    say "Installing the packages failed; the lines above and $log say why. Is a package index in reach?"
    exit 1
fi
# All at once and on all cores, so that the first run does not have to. Some files are for other Pythons.
.venv/bin/python -m compileall -q -j 0 .venv/lib >/dev/null 2>&1 || true
# Every Spark below this folder starts faster by it; without it all works as well.
rm -rf .cache/engine
.venv/bin/paimon-engine warm-up .cache/engine >>"$log" 2>&1 || say "Spark cannot be started here yet; $log says why."
rm -rf .cache/tmp
printf '%s\n' "$wanted" >.venv/.installed
say "Set up."

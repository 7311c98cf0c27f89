#!/bin/sh
# Makes .venv with the pinned dependencies; does nothing when that is already done.
set -eu

say() { printf '%s\n' "$*" >&2; }

find_python() {
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$name" >/dev/null 2>&1 &&
            "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

check_java() {
    java=java
    if [ -n "${JAVA_HOME:-}" ]; then java="$JAVA_HOME/bin/java"; fi
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || version=
    if [ -z "$version" ]; then
        say "Java is missing: Spark needs a JDK 17 or newer. Install one (e.g. 'apt-get install openjdk-17-jre-headless') or set JAVA_HOME."
        exit 1
    fi
    if [ "$version" -lt 17 ]; then
        say "Java $version is too old: Spark needs 17 or newer. Install one or point JAVA_HOME at it."
        exit 1
    fi
}

if ! python=$(find_python); then
    say "Python 3.11, 3.12 or 3.13 is missing: found $(python3 --version 2>&1 || echo 'no python3'). Install one and put it on the PATH."
    exit 1
fi
check_java

stamp=.venv/.setup-done
wanted=$(cat pyproject.toml .constraints.txt .setup.sh | cksum)
if [ -x .venv/bin/python ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

mkdir -p .cache/tmp
export PIP_CACHE_DIR="$PWD/.cache/pip" TMPDIR="$PWD/.cache/tmp" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=
log=.cache/setup.log
say "Setting up .venv with $("$python" --version) (a few minutes, once; details in $log) ..."
if [ ! -x .venv/bin/python ]; then "$python" -m venv .venv; fi
if ! .venv/bin/python -m pip install --no-input -c .constraints.txt -e '.[dev,demo,s3]' >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    say "Setting up failed: the lines above and $log say why. Is a package index in reach?"
    exit 1
fi
.venv/bin/python -m compileall -q -j 0 .venv/lib >/dev/null 2>&1 || true
printf '%s\n' "$wanted" >"$stamp"
say "Set up."

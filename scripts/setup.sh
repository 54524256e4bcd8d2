#!/usr/bin/env bash
# Makes a fresh clone ready: system packages, .venv with locked versions and the compiled kernel, and for the tests the
# jars of Apache Kafka and of Spark's own connector to it. Does nothing, quickly, when nothing has changed since the
# last time.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv/.setup-stamp
inputs=(requirements.lock pyproject.toml setup.py scripts/setup.sh scripts/*.pom.xml src/highwater/kernel/*.p[xy]* src/*.pth)

say() { printf 'setup: %s\n' "$*" >&2; }

find_python() {
    local candidate
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

has_venv() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }

has_headers() {
    "$1" -c 'import os, sys, sysconfig as s; sys.exit(not os.path.exists(s.get_path("include") + "/Python.h"))' 2>/dev/null
}

has_java() {
    local major
    major=$(java -version 2>&1 | sed -n 's/^[^"]*version "\([0-9]*\).*/\1/p') && [ "${major:-0}" -ge 17 ] && command -v javac >/dev/null
}

missing_packages() {
    local python=$1
    [ -n "$python" ] || echo python3
    [ -n "$python" ] && has_venv "$python" || echo python3-venv
    [ -n "$python" ] && has_headers "$python" || echo python3-dev
    command -v gcc >/dev/null || echo gcc libc6-dev
    has_java || echo default-jdk-headless
    command -v mvn >/dev/null || echo maven
    command -v kcat >/dev/null || echo kcat
    command -v strace >/dev/null || echo strace
    command -v ip >/dev/null && command -v tc >/dev/null || echo iproute2
}

install_packages() {
    say "installing $*"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

system_packages() {
    local wanted
    wanted=$(missing_packages "$(find_python)" | xargs)
    [ -n "$wanted" ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        # shellcheck disable=SC2086
        install_packages $wanted
        wanted=$(missing_packages "$(find_python)" | xargs)
    fi
    [ -n "$wanted" ] || return 0
    say "missing: $wanted"
    say "install them (on Debian or Ubuntu: sudo apt-get update && sudo apt-get install -y $wanted) and run it again"
    say "needed: Python 3.11 or newer with venv and headers, a C compiler, a JDK 17 or newer, Maven, kcat, strace and iproute2"
    exit 1
}

virtual_environment() {
    local python
    python=$(find_python)
    if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        say "making .venv with $("$python" --version)"
        "$python" -m venv --clear .venv
    fi
    say "installing the locked packages"
    .venv/bin/python -m pip install -q --disable-pip-version-check -r requirements.lock
    say "building and installing highwater"
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
    # A wheel brings it along.
    cp src/highwater-interpreter.pth "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/"
    # An editable install leaves this to the first import, which does not keep it under PYTHONDONTWRITEBYTECODE: every
    # process would compile 400 modules again.
    .venv/bin/python -m compileall -q src
}

classpath_of() {
    local name=$1 pom=$2 file=$3
    if [ -s "$file" ] && [ "$file" -nt "$pom" ] && jars_exist "$file"; then return; fi
    say "resolving $name"
    mkdir -p .apache
    mvn -q -B -Dstyle.color=never -f "$pom" dependency:build-classpath -Dmdep.outputFile="$PWD/$file.new" >&2
    mv "$file.new" "$file"
}

jars_exist() { tr ':' '\n' <"$1" | while read -r jar || [ -n "$jar" ]; do [ -e "$jar" ] || return 1; done; }

digest() { { cat "${inputs[@]}"; .venv/bin/python --version; } 2>/dev/null | sha256sum | cut -d' ' -f1; }

# For the tests of the console. They fail without it, and name it; nothing else needs it.
browser() {
    local each
    for each in chromium chromium-browser google-chrome; do
        if command -v "$each" >/dev/null; then return; fi
    done
    if [ "$(id -u)" = 0 ] && grep -qx 'ID=debian' /etc/os-release 2>/dev/null && install_packages chromium; then return; fi
    say "the tests of the web console need Chromium: on Debian, sudo apt-get install -y chromium"
}

if [ "${1:-}" = browser ]; then
    browser
    exit 0
fi
if [ -f "$stamp" ] && [ -s .apache/classpath.txt ] && [ -s .apache/spark-kafka.txt ] && [ "$(digest)" = "$(cat "$stamp")" ]; then
    exit 0
fi
system_packages
virtual_environment
classpath_of "Apache Kafka's jars" scripts/apache-kafka.pom.xml .apache/classpath.txt
classpath_of "the jars of Spark's Kafka connector" scripts/spark-kafka.pom.xml .apache/spark-kafka.txt
digest >"$stamp"
say "ready"

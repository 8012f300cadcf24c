#!/bin/sh
# Debian packages that tests call as programs. Installed here only by root in continuous integration (CI=true);
# elsewhere this says what is left out and how to get it, and the tests that need it are skipped.
set -eu

# package, program that shows it is there, what it is for
packages="ffmpeg ffprobe time-stamps-and-counts-beside-FFmpeg's-own"

missing=""
set -- $packages
while [ $# -ge 3 ]; do
    if ! command -v "$2" >/dev/null 2>&1; then
        missing="$missing $1"
        echo "not installed: $1 (tests use $2 for $(echo "$3" | tr - ' '))" >&2
    fi
    shift 3
done
[ -n "$missing" ] || exit 0

if [ "${CI:-}" = true ] && [ "$(id -u)" -eq 0 ]; then
    apt-get update -qq
    # shellcheck disable=SC2086 - a list of names
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
else
    echo "left out: the tests that need them are skipped; to run them too: sudo apt-get install$missing" >&2
fi

#!/bin/sh
# Debian packages that tests call as programs. Installed here only by root in continuous integration (CI=true);
# elsewhere this says what is left out and how to get it, and the tests that need it are skipped.
set -eu

# packages (joined by +), program that shows they are there, what it is for
packages="
ffmpeg ffprobe time-stamps-and-counts-beside-FFmpeg's-own
redis-server redis-server the-shared-cache
mosquitto mosquitto results-published-over-MQTT
nats-server nats-server results-published-over-NATS
gstreamer1.0-tools+gstreamer1.0-plugins-base+gstreamer1.0-plugins-good+gstreamer1.0-plugins-bad+gstreamer1.0-plugins-ugly+python3-gi+gir1.2-gstreamer-1.0+gir1.2-gst-plugins-base-1.0+gir1.2-gst-rtsp-server-1.0 gst-launch-1.0 the-camera-server
"

missing=""
# shellcheck disable=SC2086 - a table of words
set -- $packages
while [ $# -ge 3 ]; do
    if ! command -v "$2" >/dev/null 2>&1; then
        missing="$missing $(echo "$1" | tr + ' ')"
        echo "not installed: $(echo "$1" | tr + ' ') (tests use $2 for $(echo "$3" | tr - ' '))" >&2
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

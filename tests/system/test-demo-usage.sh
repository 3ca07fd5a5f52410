#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/demo names what is wrong with its command line, in one line and before it builds anything, and needs a GPU for --gpu.
# usage: test-demo-usage.sh TOOLS_DEMO
set -euo pipefail

demo=$1

says() { # TEXT ARGS...
    local text=$1 out status=0
    shift
    out=$("$demo" "$@" 2>&1) || status=$?
    [ "$status" = 2 ] || { echo "$*: exit status $status instead of 2: $out"; exit 1; }
    [ "$(wc -l <<<"$out")" = 1 ] || { echo "$*: not one line: $out"; exit 1; }
    [[ $out == "tools/demo: "*"$text"* ]] || { echo "$*: \"$text\" is not in: $out"; exit 1; }
}

says 'unknown option --pse' --pse 3
says 'unexpected word four' --pes 4 four
says '--pes needs a number' --pes
says '--pes takes a number above 0, not x' --pes=x
says '--gpus takes a number above 0, not 0' --gpus 0
says '--hot needs --dc' --hot 2
says '--dc does not work with --gpu' --dc --gpu
says '--runtime does not work with --gpu' --runtime --gpu
if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null && ! [ -e /dev/dxg ]; then
    says '--gpu needs an NVIDIA GPU' --gpu
fi
"$demo" --help | grep -q '^usage: tools/demo '
[ "$("$demo" -h)" = "$("$demo" --help)" ]

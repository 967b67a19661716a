#!/bin/sh
# Copied beside the answers of a test: keeps its arguments and environment, prints `stdout` and `stderr`, exits with `exit`.
here=$(dirname "$0")
for argument in "$@"; do printf '%s\0' "$argument"; done > "$here/argv"
/usr/bin/env -0 > "$here/environment"
[ -f "$here/stdout" ] && cat "$here/stdout"
[ -f "$here/stderr" ] && cat "$here/stderr" >&2
exit "$(cat "$here/exit")"

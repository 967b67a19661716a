#!/bin/sh
# Prints $2 on stdout and $3 on stderr, then exits with $1.
printf '%s' "$2"
printf '%s' "$3" >&2
exit "$1"

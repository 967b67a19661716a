#!/bin/sh
# Does not end, does not listen to SIGTERM; its pid is in $1.
trap '' TERM INT HUP
echo started
echo $$ > "$1"
while :; do sleep 1; done

#!/bin/sh
# Ends at once, and leaves a descendant in a session of its own that holds stdout; its pid is in $1.
setsid sh -c 'echo $$ > "$0"; exec sleep 60' "$1" &
while [ ! -s "$1" ]; do sleep 0.01; done
echo done

#!/bin/sh
# Ends at once, and leaves a child that holds stdout; its pid is in $1.
sleep 60 &
echo $! > "$1"
echo done

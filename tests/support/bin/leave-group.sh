#!/bin/sh
# Starts two descendants in sessions of their own and one in its group, and does not end; their pids are in $1.
for number in 1 2; do
  setsid sh -c 'echo $$ >> "$0"; exec sleep 60' "$1" &
done
sleep 60 &
echo $! >> "$1"
while :; do sleep 1; done

#!/bin/sh
# Reads stdin to its end.
cat
echo end

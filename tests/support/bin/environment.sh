#!/bin/sh
# Prints the environment it was started with.
exec /usr/bin/env

#!/bin/sh
# Prints $1 with the escapes of printf.
printf "$1"

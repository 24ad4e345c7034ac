#!/bin/sh
# run.sh BINARY OUT: runs each case under `BINARY trace`, and prints a line for each. README.md says more.
exec python3 "$(dirname "$0")/run.py" "$@"

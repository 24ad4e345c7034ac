#!/bin/sh
# run.sh [--at-once N] [--spread] [--seconds S] [--on SIM] BINARY OUT [ONLY…]: see README.md.
exec python3 "$(dirname "$0")/harness.py" "$@"

#!/usr/bin/env bash
# The same bytes as ever: small runs of every kind against the record in tests/golden/models.txt.
exec /usr/bin/python3 "$(dirname "$0")/../golden/models" "$@"

#!/usr/bin/env bash
# The Python packages that tests of the server ask it with, into build/clients. Without a network: none, and these tests
# are skipped by name.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

[ -x build/clients/bin/python ] && build/clients/bin/python -c 'import openai, jsonschema' 2>/dev/null && exit 0
python3 -m venv build/clients && build/clients/bin/pip install --quiet --disable-pip-version-check openai==3.57.0 jsonschema==4.26.0 && exit 0
echo "install.sh: the packages openai and jsonschema are not there; tests with them are skipped" >&2

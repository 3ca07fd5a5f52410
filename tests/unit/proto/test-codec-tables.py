#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-codec-tables.py GENERATOR: a misspelt word in square brackets makes no tables, so that no secret is shown by mistake."""
import pathlib
import subprocess
import sys
import tempfile

PROTO = 'message Envelope {\n  oneof body {\n    KeyRep key_rep = 8;\n  }\n}\nmessage KeyRep {\n  uint32 key = 1; // %s\n}\n'


def run(folder, comment):
    proto, header, tables = (folder / name for name in ('a.proto', 'messages.h', 'tables.h'))
    proto.write_text(PROTO % comment)
    result = subprocess.run([sys.executable, sys.argv[1], proto, header, tables], capture_output=True, text=True)
    return result, tables.read_text() if tables.exists() else ''


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    result, tables = run(folder, 'opens memory [secert]')
    assert result.returncode == 1 and '[secert] means nothing' in result.stderr and not tables, result
    result, tables = run(folder, 'opens memory [secret]')
    assert result.returncode == 0 and '.name = "key", .type = FIELD_U32' in tables and '.is_secret = true' in tables, tables
    result, tables = run(folder, 'opens memory')
    assert result.returncode == 0 and 'is_secret' not in tables, tables

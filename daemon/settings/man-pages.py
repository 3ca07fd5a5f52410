#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""man-pages.py VERSION PAGE.SECTION.in... : the pages as C strings, named man_PAGE."""
import os
import re
import sys

for path in sys.argv[2:]:
    name = re.sub(r'\.\d\.in$', '', os.path.basename(path)).replace('.', '_')
    with open(path, encoding='utf-8') as file:
        text = file.read().replace('@VERSION@', sys.argv[1])
    print(f'static const char man_{name}[] = {{{", ".join(str(byte) for byte in text.encode())}, 0}};')

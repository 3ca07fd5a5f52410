#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the first C program of a README to a file: extract-example.py README OUTPUT"""
import re
import sys

with open(sys.argv[1], encoding='utf-8') as readme:
    program = re.search(r'```c\n(.*?^int main\(.*?)```', readme.read(), re.S | re.M)
with open(sys.argv[2], 'w', encoding='utf-8') as output:
    output.write(program.group(1))

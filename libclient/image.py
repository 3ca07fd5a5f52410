#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a file of bytes as C, as NAME_image: image.py NAME FILE OUTPUT. The array ends with a zero word, so that it is never empty."""
import pathlib
import sys

PER_LINE = 20


def main():
    name, data = sys.argv[1], pathlib.Path(sys.argv[2]).read_bytes()
    lines = [','.join(map(str, data[i:i + PER_LINE])) + ',' for i in range(0, len(data), PER_LINE)]
    pathlib.Path(sys.argv[3]).write_text(
        f'#include <stddef.h>\n\nextern const unsigned char {name}_image[];\nextern const size_t {name}_image_bytes;\n\n'
        f'__attribute__((aligned(64))) const unsigned char {name}_image[] = {{\n' + '\n'.join(lines) + '\n0};\n'
        f'const size_t {name}_image_bytes = {len(data)};\n', encoding='utf-8')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a file of bytes as C: image.py FILE OUTPUT. The array ends with a zero word, so that it is never empty."""
import pathlib
import sys

PER_LINE = 20


def main():
    data = pathlib.Path(sys.argv[1]).read_bytes()
    lines = [','.join(map(str, data[i:i + PER_LINE])) + ',' for i in range(0, len(data), PER_LINE)]
    pathlib.Path(sys.argv[2]).write_text(
        '#include <stddef.h>\n\nextern const unsigned char stream_image[];\nextern const size_t stream_image_bytes;\n\n'
        '__attribute__((aligned(64))) const unsigned char stream_image[] = {\n' + '\n'.join(lines) + '\n0};\n'
        f'const size_t stream_image_bytes = {len(data)};\n', encoding='utf-8')


if __name__ == '__main__':
    main()

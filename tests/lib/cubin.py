# SPDX-License-Identifier: Apache-2.0
"""What a cubin holds: the 64-bit ELF file that nvcc -cubin writes. Read here, so that no disassembler is needed."""
import struct

# Both constants hold for sm_70 to sm_90: an instruction is 16 bytes, and its lowest 12 bits are the operation.
INSTRUCTION_BYTES = 16
OPCODE_MASK = 0xfff
OPCODE_NOP = 0x918

SECTION_WITHOUT_BYTES = 8
SYMBOL_FUNCTION = 2

# In .nv.info: the format with a size, and the record {symbol, registers}.
INFO_SIZED = 4
INFO_REGISTERS = 0x2f


def text_at(data, offset):
    return data[offset:data.index(b'\0', offset)].decode()


def sections(path):
    """Contents of each section by name, in order of section number."""
    with open(path, 'rb') as f:
        data = f.read()
    if data[:5] != b'\x7fELF\x02':
        raise ValueError(f'{path} is no 64-bit ELF file')
    (start,) = struct.unpack_from('<Q', data, 0x28)
    entry_bytes, n, names = struct.unpack_from('<HHH', data, 0x3a)
    headers = [struct.unpack_from('<IIQQQQ', data, start + i * entry_bytes) for i in range(n)]
    return {text_at(data, headers[names][4] + name): data[offset:offset + (size if kind != SECTION_WITHOUT_BYTES else 0)]
            for name, kind, _, _, offset, size in headers}


def kernels(path):
    """SASS of each function by name. In whole-program mode a kernel's includes the functions it calls."""
    return {name[len('.text.'):]: code for name, code in sections(path).items() if name.startswith('.text.')}


def functions(path):
    """Functions that are defined here, and those that a link must find elsewhere."""
    found = sections(path)
    all_of_them = [(text_at(found['.strtab'], name), section)
                   for name, info, _, section, _, _ in struct.iter_unpack('<IBBHQQ', found['.symtab'])
                   if info & 0xf == SYMBOL_FUNCTION]
    return {name for name, section in all_of_them if section}, {name for name, section in all_of_them if not section}


def registers(path):
    """Of each function by name; a kernel's include those of what it calls."""
    found = sections(path)
    names = [text_at(found['.strtab'], name) for name, *_ in struct.iter_unpack('<IBBHQQ', found['.symtab'])]
    info, at, result = found['.nv.info'], 0, {}
    while at < len(info):
        form, what, size = struct.unpack_from('<BBH', info, at)
        at += 4
        if form != INFO_SIZED:
            continue
        if what == INFO_REGISTERS:
            symbol, count = struct.unpack_from('<II', info, at)
            result[names[symbol]] = count
        at += size
    return result


def in_line(path):
    """The part of kernels() before the first function called: what runs when nothing out of line is needed."""
    found = sections(path)
    names = list(found)
    first = {}
    for _, info, _, section, offset, _ in struct.iter_unpack('<IBBHQQ', found['.symtab']):
        if info & 0xf == SYMBOL_FUNCTION and offset > 0:
            name = names[section]
            first[name] = min(offset, first.get(name, offset))
    return {name: code[:first.get('.text.' + name)] for name, code in kernels(path).items()}


def count_instructions(code):
    """NOPs are left out: ptxas pads with them to a boundary."""
    words = struct.unpack(f'<{len(code) // 8}Q', code)[::INSTRUCTION_BYTES // 8]
    return sum(word & OPCODE_MASK != OPCODE_NOP for word in words)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codec-tables.py PROTO HEADER TABLES: the plain structs of the messages, and the tables that the codec follows.

Message HelloReq becomes struct msg_hello_req, enum value ROLE_CLIENT becomes MSG_ROLE_CLIENT, without the UNSET ones. Words in
square brackets at the end of a comment say what the .proto cannot:

  N             a string of at most N - 1 bytes (otherwise MSG_NAME_BYTES - 1), at most N bytes or elements
  fixed N       exactly N bytes; N numbers, all of which are sent
  heap N        at most N bytes or elements, in memory that msg_deinit frees
  optional      a message whose absence means something: has_FIELD tells
  secret        never shown by msg_format
  in STRUCT F   the field is in field F, which is a struct STRUCT
  as NAME       the plain name of this message or field
  allowed       0 of an enum may be sent

A field that is counted has n_FIELD beside it, bytes have FIELD_bytes.
"""
import re
import sys
from dataclasses import dataclass, field

LINE = re.compile(r'^\s*(?:(message|enum|oneof)\s+(\w+)\s*\{|(repeated )?(?:(\w+) )?(\w+) = (\d+);)(.*)$')
TAG = re.compile(r'(MSG_[A-Z_]+|\d+|optional|secret|allowed|(fixed|heap|as) \w+|in \w+ \w+)$')
NUMBERS = {'uint32': ('U32', 'uint32_t'), 'uint64': ('U64', 'uint64_t'), 'bool': ('BOOL', 'bool')}


@dataclass
class Field:
    proto_type: str
    name: str
    number: int
    repeated: bool
    tags: dict
    comment: str

    @property
    def limit(self):
        return next((word for word in self.tags if re.match(r'[A-Z\d]', word)), None) or \
            self.tags.get('fixed') or self.tags.get('heap')


@dataclass
class Block:
    name: str
    tags: dict
    fields: list = field(default_factory=list)

    @property
    def plain(self):
        return self.tags.get('as', 'msg_' + snake(self.name))


def snake(name):
    return re.sub(r'(?<!^)(?=[A-Z])', '_', name).lower()


def tags_of(text):
    found = re.search(r'\[([^]]*)\]\s*$', text)
    words = found[1].split(', ') if found else []
    for word in words:
        if not TAG.match(word):
            sys.exit(f'[{word}] means nothing')
    return {name: value for name, _, value in (word.partition(' ') for word in words)}


def comment_of(text):
    return re.sub(r'^\s*(//)?\s*|\s*\[[^]]*\]\s*$', '', text)


def parse(text):
    """Messages and enums by name; the fields of the oneof are bodies of the Envelope."""
    messages, enums, bodies, block = {}, {}, [], None
    for line in text.splitlines():
        match = LINE.match(line.split('//')[0] if line.lstrip().startswith('//') else line)
        if not match:
            continue
        kind, name, repeated, proto_type, field_name, number, rest = match.groups()
        if kind == 'oneof':
            block = Block(name, {}, bodies)
        elif kind:
            block = (messages if kind == 'message' else enums)[name] = Block(name, tags_of(rest))
        else:
            block.fields.append(Field(proto_type, field_name, int(number), bool(repeated), tags_of(rest), comment_of(rest)))
    del messages['Envelope']
    return messages, enums, bodies


def enum_range(enum):
    numbers = [value.number for value in enum.fields if value.number or 'allowed' in value.tags]
    return min(numbers), max(numbers)


def shape(entry, messages, enums):
    """(field type, members as (type, declarator), name of the counting member, name of the table of its messages)"""
    name, limit = entry.tags.get('as', entry.name), entry.limit
    sub = messages.get(entry.proto_type)
    if sub:
        struct = f'struct {sub.plain}'
        if 'heap' in entry.tags:
            return 'MSG_HEAP', [('unsigned int', f'n_{name}'), (struct, f'*{name}')], f'n_{name}', sub
        if entry.repeated:
            return 'MSG_ARRAY', [('unsigned int', f'n_{name}'), (struct, f'{name}[{limit}]')], f'n_{name}', sub
        if 'optional' in entry.tags:
            return 'MSG_OPT', [('bool', f'has_{name}'), (struct, name)], f'has_{name}', sub
        return 'MSG', [(struct, name)], None, sub
    if entry.proto_type in enums:
        return 'ENUM', [(f'enum msg_{snake(entry.proto_type)}', name)], None, None
    if entry.proto_type == 'string':
        return 'TEXT', [('char', f'{name}[{limit or "MSG_NAME_BYTES"}]')], None, None
    if entry.proto_type == 'bytes':
        if 'fixed' in entry.tags:
            return 'BYTES_FIXED', [('uint8_t', f'{name}[{limit}]')], None, None
        at = f'*{name}' if 'heap' in entry.tags else f'{name}[{limit}]'
        return ('BYTES_HEAP' if 'heap' in entry.tags else 'BYTES',
                [('uint32_t', f'{name}_bytes'), ('uint8_t', at)], f'{name}_bytes', None)
    kind, c_type = NUMBERS[entry.proto_type]
    if not entry.repeated:
        return kind, [(c_type, name)], None, None
    counted = [] if 'fixed' in entry.tags else [('unsigned int', f'n_{name}')]
    return f'{kind}_ARRAY', counted + [(c_type, f'{name}[{limit}]')], f'n_{name}' if counted else None, None


def struct_text(message, messages, enums):
    lines, nested = [], set()
    for entry in message.fields:
        if 'in' in entry.tags:
            if entry.tags['in'] not in nested:
                lines.append(f'\tstruct {entry.tags["in"]};')
            nested.add(entry.tags['in'])
            continue
        members = shape(entry, messages, enums)[1]
        lines += [f'\t{c_type} {declarator};' for c_type, declarator in members]
        if entry.comment:
            lines[-1] += f' /* {entry.comment} */'
    return f'struct {message.plain} {{\n' + '\n'.join(lines) + '\n};\n'


def in_order(messages):
    """Structs after those that they contain, each once."""
    done = {}

    def add(message):
        for entry in message.fields:
            if entry.proto_type in messages:
                add(messages[entry.proto_type])
            outer = entry.tags.get('in', '').split(' ')[0]
            add_all([other for other in messages.values() if outer and other.plain == outer])
        if message.fields:
            done.setdefault(message.plain, message)

    def add_all(group):
        for message in group:
            add(message)

    add_all(messages.values())
    return done.values()


def header(messages, enums, bodies):
    yield '/* Made by proto/codec-tables.py; proto/codec.h includes it. */\n'
    yield 'enum msg_kind {\n' + ''.join(f'\tMSG_{body.name.upper()} = {body.number},\n' for body in bodies) + '};\n'
    yield f'#define MSG_KIND_MAX {max(body.number for body in bodies)}\n\n'
    for enum in enums.values():
        yield f'enum msg_{snake(enum.name)} {{\n'
        yield ''.join(f'\tMSG_{value.name} = {value.number},\n' for value in enum.fields
                      if value.number or 'allowed' in value.tags) + '};\n'
    for message in in_order(messages):
        yield struct_text(message, messages, enums)
    yield 'struct msg {\n\tuint64_t id;\n\tuint32_t n_fds;\n\tenum msg_kind kind;\n\tunion {\n'
    for body in bodies:
        if messages[body.proto_type].fields:
            yield f'\t\tstruct {messages[body.proto_type].plain} {body.name};\n'
    yield '\t};\n};\n'


def row(message, entry, messages, enums):
    kind, _, counter, sub = shape(entry, messages, enums)
    within = entry.tags['in'].split(' ')[1] + '.' if 'in' in entry.tags else ''
    name = within + entry.tags.get('as', entry.name)
    low, high = enum_range(enums[entry.proto_type]) if kind == 'ENUM' else (0, entry.limit or 0)
    if kind == 'TEXT':
        high = entry.limit or 'MSG_NAME_BYTES'
    text = f'.number = {entry.number}, .name = "{name}", .type = FIELD_{kind}, .offset = offsetof(struct {message.plain}, {name})'
    text += f', .n_offset = offsetof(struct {message.plain}, {within}{counter})' if counter else ''
    text += f', .min = {low}, .max = {high}' if high else ''
    text += ', .is_secret = true' if 'secret' in entry.tags else ''
    text += f', .sub = &{snake(sub.name)}_message' if sub else ''
    return f'\t{{{text}}},\n'


def tables(messages, enums, bodies):
    yield '/* Made by proto/codec-tables.py; proto/codec-table.c includes it. */\n'
    for message in messages.values():
        yield f'static const struct message {snake(message.name)}_message;\n'
    for message in messages.values():
        name = snake(message.name)
        plain = ''
        if message.fields:
            yield f'static const struct field {name}_fields[] = {{\n'
            yield from (row(message, entry, messages, enums) for entry in message.fields)
            yield '};\n'
            plain = f', .plain_bytes = sizeof(struct {message.plain}), .n_fields = {len(message.fields)}, .fields = {name}_fields'
        yield f'static const struct message {name}_message = {{.generated = &shmemd__{name}__descriptor{plain}}};\n'
    yield 'const struct message_kind codec_kinds[MSG_KIND_MAX + 1] = {\n'
    for body in bodies:
        yield f'\t[MSG_{body.name.upper()}] = {{"{body.name.replace("_", "-")}", &{snake(body.proto_type)}_message}},\n'
    yield '};\n'


def main():
    source, header_path, tables_path = sys.argv[1:]
    with open(source, encoding='utf-8') as file:
        parsed = parse(file.read())
    for path, text in ((header_path, header(*parsed)), (tables_path, tables(*parsed))):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(''.join(text))


main()

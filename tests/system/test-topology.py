#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl topology without a daemon: tables, JSON, dump, pictures, mistakes.

test-topology.py SHMEMCTL MACHINE CHECK-TREE. Pictures are read back: labels once, none over another, edges from box to box, as many as
there are assignments. Of captures of real machines, too, where SHMEMD_TEST_TOPOLOGIES names a folder of them.
"""
import contextlib
import glob
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import xml.sax.saxutils

from ctl_subject import Cases

SVG = '{http://www.w3.org/2000/svg}'
# Width of a character of the font, in parts of its size; of DejaVu Sans Mono 0.602, which some renderers round up to pixels.
CHARACTER = 0.66
PAGE = (1920, 1080)
MAX_WIDTH = 120
CAPABILITY = ('max_rate_mbps', 'max_lanes')
ABILITIES = ('devx', 'masked_atomics', 'dmabuf', 'blueflame')
WORDS = re.compile(r'X|NV\d+|XGMI|PIX|PXB|PHB|NODE|SYS')


def run(shmemctl, *words, status=0, root=None):
    """root: the folder with the machine's sys/, in place of this one's."""
    done = subprocess.run([shmemctl, 'topology', *words], capture_output=True, text=True, errors='surrogateescape', check=False, timeout=60,
                          env={**os.environ, 'SHMEMD_SOCKET': '/nonexistent/socket', **({'SHMEMD_SYSFS': root + '/sys'} if root else {})})
    if done.returncode != status:
        raise SystemExit(f'shmemctl topology {words}: exit status {done.returncode}\n{done.stdout}{done.stderr}')
    return done.stdout if status == 0 else done.stderr


# ---- machines

def machine(n_groups, n_gpus, n_nics, name='nic'):
    """A machine with switches of so many GPUs and NICs each."""
    text, gpu, nic = '<shmemd-topology version="1" numa_nodes="2">', 0, 0
    for group in range(n_groups):
        text += f'<host numa="{group * 2 // n_groups}"><bridge hops="1" pci="{group:x}:ff:00.0">'
        for _ in range(n_gpus):
            text += f'<bridge hops="1"><function pci="1:{gpu:02x}:00.0" class="0302"><gpu switch_links="18"/></function></bridge>'
            gpu += 1
        for _ in range(n_nics):
            text += f'<bridge hops="1"><function pci="2:{nic:02x}:00.0" class="0207"><nic name="{name}{nic}" port="1"/></function></bridge>'
            nic += 1
        text += '</bridge></host>'
    return text + '</shmemd-topology>'


def captures():
    folder = os.environ.get('SHMEMD_TEST_TOPOLOGIES')
    return sorted(glob.glob(f'{folder}/*-xml/*.xml')) if folder else []


# ---- pictures

def box_of(element):
    return tuple(float(element.get(key)) for key in ('x', 'y', 'width', 'height'))


def font_sizes(style):
    """{class: pixels}"""
    return {name: float(size) for names, size in re.findall(r'((?:\.[\w-]+,? ?)+)\{ font-size: ([\d.]+)px', style)
            for name in re.findall(r'[\w-]+', names)}


def label_of(element, sizes):
    """(text, size of the font, its box)"""
    size = max(sizes[name] for name in element.get('class').split() if name in sizes)
    x, y = float(element.get('x')), float(element.get('y'))
    return element.text, size, (x, y - size, len(element.text) * size * CHARACTER, size * 1.2)


def classes_of(element):
    return (element.get('class') or '').split()


def is_use(line):
    """An edge of the assignment; those of the legend are of no GPU."""
    return 'uses' in classes_of(line) and line.get('data-gpu') is not None


def overlap(a, b):
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def is_on_edge(x, y, box):
    left, top, width, height = box
    inside = left <= x <= left + width and top <= y <= top + height
    return inside and (x in (left, left + width) or y in (top, top + height))


def judge_labels(root, sizes, boxes):
    labels = [label_of(text, sizes) for text in root.iter(SVG + 'text')]
    devices = [label_of(text, sizes) for text in root.iter(SVG + 'text') if 'device' in classes_of(text)]
    own = [text.text for text in root.iter(SVG + 'text') if not {'rate', 'note'} & set(classes_of(text))]
    problems = [f'label {text!r} is there {own.count(text)} times' for text in set(own) if own.count(text) > 1]
    problems += [f'{a[0]!r} is over {b[0]!r}' for a, b in itertools.combinations(labels, 2) if overlap(a[2], b[2])]
    problems += [f'{text!r} has {size} px' for text, size, _ in labels if size < 8]
    for text, _, place in devices:
        # A device's label is in its box.
        device = re.match(r'(GPU|NIC)(\d+) ', text)
        if device:
            x, y, width, height = boxes[device.group(1).lower() + device.group(2)]
            if place[0] < x or place[0] + place[2] > x + width or place[1] < y - 3 or place[1] + place[3] > y + height + 3:
                problems.append(f'{text!r} leaves its box')
    return problems


def judge_edges(root, boxes, document):
    problems, drawn = [], set()
    for line in root.iter(SVG + 'line'):
        if not is_use(line):
            continue
        gpu, nic = line.get('data-gpu'), line.get('data-nic')
        x1, y1, x2, y2 = (float(line.get(key)) for key in ('x1', 'y1', 'x2', 'y2'))
        drawn.add((int(gpu), int(nic)))
        if not is_on_edge(x1, y1, boxes['gpu' + gpu]) or not is_on_edge(x2, y2, boxes['nic' + nic]):
            problems.append(f'the edge of GPU{gpu} and NIC{nic} does not join their boxes')
    index = {(nic['pci'], nic['port']): nic['index'] for nic in document['nics']}
    wanted = {(gpu['index'], index[nic['pci'], nic['port']]) for gpu in document['gpus'] for nic in gpu['nics']}
    return problems + [f'GPU{gpu} and NIC{nic}: drawn or assigned, not both' for gpu, nic in sorted(drawn ^ wanted)]


def passes(line, box):
    """Whether the line has a part in the box."""
    x1, y1, x2, y2 = (float(line.get(key)) for key in ('x1', 'y1', 'x2', 'y2'))
    first, last = 0.0, 1.0
    for start, way, low, size in ((x1, x2 - x1, box[0], box[2]), (y1, y2 - y1, box[1], box[3])):
        if way == 0 and not low < start < low + size:
            return False
        if way:
            ends = sorted(((low - start) / way, (low + size - start) / way))
            first, last = max(first, ends[0]), min(last, ends[1])
    return first < last


def covers(rect, box):
    x, y, width, height = box_of(rect)
    return x <= box[0] and y <= box[1] and x + width >= box[0] + box[2] and y + height >= box[1] + box[3]


def judge_ink(root, sizes):
    """Names can be read in renderers that know no paint-order: no outline, and what passes a name has a filled box over it."""
    rules = re.findall(r'([^{}]+)\{([^{}]*)\}', root.find(SVG + 'style').text)
    labels = {text.get('class') for text in root.iter(SVG + 'text')}
    problems = [f'text with an outline: {heads.strip()}' for heads, body in rules if 'stroke' in body and
                ('text' in heads.split() or labels & set(re.findall(r'\.([\w-]+)', heads)))]
    drawn = [element for element in root if element.tag in (SVG + 'line', SVG + 'rect', SVG + 'text')]
    for at, text in enumerate(drawn):
        if text.tag != SVG + 'text':
            continue
        place = label_of(text, sizes)[2]
        covered = max((i for i in range(1, at) if drawn[i].tag == SVG + 'rect' and drawn[i].get('class') != 'switch'
                       and covers(drawn[i], place)), default=0)
        problems += [f'a line passes {text.text!r}' for i in range(covered, len(drawn)) if drawn[i].tag == SVG + 'line' and
                     passes(drawn[i], place)]
    return problems


def judge_width(boxes):
    """Frames, and the boxes in them, are as wide as there is room."""
    problems = []
    for name, (x, y, width, height) in boxes.items():
        inside = [box for other, box in boxes.items() if other.startswith('switch') and x < box[0] < x + width and y < box[1] < y + height]
        if name.startswith('numa') and x + width - max((box[0] + box[2] for box in inside), default=x + width) > 20:
            problems.append(f'{name} is empty at its right')
    return problems


def judge_fans(text, n_least):
    """Between the GPUs and NICs of one switch no lines cross, and they have room."""
    lines = [tuple(float(line.get(key)) for key in ('x1', 'y1', 'x2', 'y2')) for line in
             xml.etree.ElementTree.fromstring(text).iter(SVG + 'line') if is_use(line)]
    problems = [f'{a} crosses {b}' for a, b in itertools.combinations(lines, 2) if (a[1] - b[1]) * (a[3] - b[3]) < 0]
    return problems + [f'{line} is short' for line in lines if line[2] - line[0] < n_least]


def judge_boxes(boxes, document):
    devices = {name: box for name, box in boxes.items() if re.match(r'(gpu|nic)\d', name)}
    problems = [f'{a} is over {b}' for a, b in itertools.combinations(sorted(devices), 2) if overlap(devices[a], devices[b])]
    if len(devices) != len(document['gpus']) + len(document['nics']):
        problems.append(f'{len(devices)} boxes of devices')
    return problems


def judge_picture(text, document):
    root = xml.etree.ElementTree.fromstring(text)
    sizes = font_sizes(root.find(SVG + 'style').text)
    boxes = {rect.get('id'): box_of(rect) for rect in root.iter(SVG + 'rect') if rect.get('id')}
    page, inside = (float(root.get('width')), float(root.get('height'))), [float(word) for word in root.get('viewBox').split()]
    scale = page[0] / inside[2]
    problems = judge_labels(root, sizes, boxes) + judge_edges(root, boxes, document) + judge_boxes(boxes, document)
    problems += judge_ink(root, sizes) + judge_width(boxes)
    problems += [f'{name} leaves the page' for name, (x, y, w, h) in boxes.items() if x < 0 or y < 0 or x + w > inside[2] or y + h > inside[3]]
    if page[0] > PAGE[0] or page[1] > PAGE[1]:
        problems.append(f'the page is {page[0]} x {page[1]}')
    if not 1 <= scale <= page[1] / inside[3] + 0.01:
        problems.append(f'enlarged by {scale}')
    return problems


def draw(shmemctl, path, scratch):
    picture = os.path.join(scratch, 'picture.svg')
    run(shmemctl, '--from', path, '--svg', picture)
    with open(picture, encoding='utf-8') as file:
        return file.read(), json.loads(run(shmemctl, '--json', '--from', path))


def lies_in(a, b):
    return b[0] <= a[0] and b[1] <= a[1] and a[0] + a[2] <= b[0] + b[2] and a[1] + a[3] <= b[1] + b[3]


def check_flat(cases, shmemctl, scratch):
    """Devices of two NUMA nodes straight below one host bridge, by turns."""
    path = os.path.join(scratch, 'flat.xml')
    with open(path, 'w', encoding='utf-8') as file:
        file.write('<shmemd-topology version="1" numa_nodes="2"><host pci="0:00:00.0">' + ''.join(
            f'<function pci="0:{bus:02x}:00.0" class="{"0302" if bus < 5 else "0207"}" numa="{bus % 2}"/>' for bus in range(1, 9)) +
            '</host></shmemd-topology>')
    text, document = draw(shmemctl, path, scratch)
    boxes = {rect.get('id'): box_of(rect) for rect in xml.etree.ElementTree.fromstring(text).iter(SVG + 'rect') if rect.get('id')}
    cases.add('the_picture_has_devices_of_a_host_bridge_on_their_numa_nodes', judge_picture(text, document) + [
        f'{kind}{device["index"]} is elsewhere' for kind in ('gpu', 'nic') for device in document[kind + 's']
        if not lies_in(boxes[kind + str(device['index'])], boxes[f'numa{device["numa_node"]}'])])


# ---- what a picture says

def states(text, name):
    """Of the NIC: its texts, and classes of what is drawn in its box."""
    root = xml.etree.ElementTree.fromstring(text)
    box = next(box_of(rect) for rect in root.iter(SVG + 'rect') if rect.get('id') == name)
    texts = [label.text for label in root.iter(SVG + 'text') if overlap(box, (float(label.get('x')), float(label.get('y')) - 5, 1, 1))]
    inside = [rect.get('class') for rect in root.iter(SVG + 'rect') if 'state' in classes_of(rect) and lies_in(box_of(rect), box)]
    return texts, inside


def lab_of(color):
    """CIE L*a*b* of '#rrggbb', in which equal distances look equal."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (int(color[i:i + 2], 16) / 255 for i in (1, 3, 5))]
    rows = ((0.4124, 0.3576, 0.1805, 0.95047), (0.2126, 0.7152, 0.0722, 1), (0.0193, 0.1192, 0.9505, 1.08883))
    x, y, z = (f ** (1 / 3) if f > 0.008856 else 7.787 * f + 16 / 116
               for f in (sum(a * b for a, b in zip(row, linear)) / row[3] for row in rows))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def check_words_of_pictures(cases, shmemctl, small, scratch):
    text, document = draw(shmemctl, small, scratch)
    root = xml.etree.ElementTree.fromstring(text)
    legend = [label.text for label in root.iter(SVG + 'text') if label.get('class') == 'legend']
    cases.add('a_picture_has_a_legend_of_what_is_in_it',
              [] if legend == ["a GPU's default NIC", 'PCIe', 'NVLink', 'port active', 'port down', 'no GPU uses it'] else [f'{legend}'])
    notes = ' '.join(label.text for label in root.iter(SVG + 'text') if label.get('class') == 'note')
    cases.add('a_picture_has_the_reasons_of_unused_nics', lacks(notes, *(f'{nic["name"]}: {nic["reason"]}' for nic in document['excluded'])))
    seen = [states(text, f'nic{i}') for i in range(4)]
    cases.add('a_picture_has_rates_and_states_of_ports',
              [f'{one}' for one, wanted in zip(seen, ('400 Gb/s', '400 Gb/s', 'down', '25 Gb/s')) if wanted not in one[0]] +
              [f'{one}' for one, wanted in zip(seen, ('active', 'active', 'down', 'active')) if f'state {wanted}' not in one[1]])
    piped = run(shmemctl, '--from', small, '--svg', '-')
    cases.add('a_picture_may_go_to_standard_output', [] if piped == text else ['it is another one'])
    path = os.path.join(scratch, 'said.xml')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(machine(16, 1, 2))
    text, document = draw(shmemctl, path, scratch)
    lines = [line for line in xml.etree.ElementTree.fromstring(text).iter(SVG + 'line') if is_use(line)]
    colors = sorted({line.get('stroke') for line in lines})
    near = [f'{a} {b}' for a, b in itertools.combinations(colors, 2)
            if sum((x - y) ** 2 for x, y in zip(lab_of(a), lab_of(b))) < 30 ** 2]
    cases.add('sixteen_gpus_have_colours_that_differ_to_the_eye', near + ([] if len(colors) == 16 else [f'{colors}']))
    defaults = {(int(line.get('data-gpu')), int(line.get('data-nic'))) for line in lines if 'default' in classes_of(line)}
    names = {nic['name']: nic['index'] for nic in document['nics']}
    wanted = {(gpu['index'], names[gpu['nics'][0]['name']]) for gpu in document['gpus']}
    marks = sum(circle.get('fill') in colors for circle in xml.etree.ElementTree.fromstring(text).iter(SVG + 'circle'))
    cases.add('a_gpus_default_nic_is_marked', ([] if defaults == wanted else [f'{defaults ^ wanted}']) + ([] if marks == 16 else [f'{marks} marks']))
    drawn = [element for element in xml.etree.ElementTree.fromstring(text) if element.tag in (SVG + 'line', SVG + 'rect')]
    links = [i for i, element in enumerate(drawn) if element.get('class') == 'gpu-link']
    boxes = [i for i, element in enumerate(drawn) if element.get('class') == 'switch']
    behind = [i for i in links if i < boxes[0]]
    cases.add('links_between_gpus_are_behind_the_boxes_that_they_pass',
              [f'a link over {drawn[k].get("id")}' for i in links if i not in behind for k in boxes if passes(drawn[i], box_of(drawn[k])) and
               not lies_in((float(drawn[i].get('x1')), float(drawn[i].get('y1')), 0, 1), box_of(drawn[k]))] +
              ([] if len(behind) == 16 else [f'{len(behind)} behind']))


def check_absent(cases, shmemctl, scratch):
    problems = []
    path = os.path.join(scratch, 'absent.xml')
    os.makedirs(os.path.join(scratch, 'nothing', 'sys'), exist_ok=True)
    for shape, wanted in (((1, 0, 2), 'has no GPUs: its NICs belong to none'), ((1, 2, 0), 'has no RDMA NICs: its GPUs can use none')):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(machine(*shape))
        problems += lacks(run(shmemctl, '--from', path, '--svg', '-'), wanted) + judge_picture(*draw(shmemctl, path, scratch))
    problems += lacks(run(shmemctl, '--svg', '-', root=os.path.join(scratch, 'nothing')), 'has no GPUs and no RDMA NICs')
    cases.add('a_picture_says_what_the_machine_lacks', problems)


def planted(text, document):
    """The judgement can fail."""
    cases = [('GPU1 ', 'GPU0 ', 'is there 2 times'), ('font-size: 9px', 'font-size: 7px', 'has 7.0 px'),
             ('.device { font-size: 9px', '.device { font-size: 30px', 'leaves its box'), ('data-nic="0"', 'data-nic="1"', 'does not join'),
             ('id="nic1" x="', 'id="nic1" x="9', 'leaves the page'), ('class="behind"', 'class="switch"', 'a line passes'),
             ('font-size: 13px;', 'font-size: 13px; stroke: #fff;', 'an outline'),
             ('id="switch0" x="30" y="116" width="', 'id="switch0" x="30" y="116" width="1" old="', 'empty at its right')]
    found = []
    for old, new, says in cases:
        changed = text.replace(old, new, 1) if 'GPU1' not in old else re.sub(r'GPU1 [0-9a-f:.]+', 'GPU0 0000:03:00.0', text)
        problems = judge_picture(changed, document)
        found += [] if any(says in problem for problem in problems) else [f'{new!r}: expected {says!r}, not {problems}']
    return found


# ---- words

def judge_json(document):
    problems = []
    for gpu in document['gpus']:
        words = gpu['gpu_distances'] + gpu['nic_distances']
        problems += [f'{word} is no distance' for word in words if not WORDS.fullmatch(word)]
        if len(words) != len(document['gpus']) + len(document['nics']):
            problems.append(f'GPU {gpu["index"]} has {len(words)} distances')
        if bool(gpu['nics']) == bool(gpu['reason']):
            problems.append(f'GPU {gpu["index"]} has NICs and a reason for none, or neither')
        problems += [f'{nic["name"]} without a reason' for nic in gpu['nics'] if not nic['reason']]
    used, left, every = ({(nic['pci'], nic['port']) for nic in nics} for nics in
                         ([nic for gpu in document['gpus'] for nic in gpu['nics']], document['excluded'], document['nics']))
    if document['gpus'] and (used | left != every or used & left):
        problems.append(f'not either had by a GPU or excluded: {(every - used - left) | (used & left)}')
    return problems


def lacks(text, *words):
    return [f'lacks {word!r}' for word in words if word not in text]


def check_small(cases, shmemctl, small, scratch):
    text = run(shmemctl, '--from', small)
    cases.add('the_matrix_has_its_legend', lacks(text, 'GPU0    X    NV18  PIX   SYS   SYS   SYS   0', 'at most one PCIe switch',
                                                 'mlx5_3  PIX: the nearest NIC'))
    cases.add('a_rate_below_what_the_port_is_capable_of_is_told', lacks(text, '400 Gb/s of 800 Gb/s') +
              ([] if len(re.findall(r' of \d+ Gb/s', text)) == 1 else ['told of others as well']))
    cases.add('excluded_nics_have_their_reasons', lacks(text, 'its port is down, physically disabled', 'it is slow: 25 Gb/s'))
    why = run(shmemctl, '--from', small, '--why', '0000:83:00.0')
    cases.add('why_names_every_nic_nearest_first',
              lacks(why, 'GPU1 0000:83:00.0, NVIDIA Example, GPU-20000000', 'its port is down', 'farther than PIX') +
              ([] if re.search(r'NIC1 .*\n.*NIC2 .*\n.*NIC3 .*\n.*NIC0 ', why) else ['in another order']))
    by_uuid = run(shmemctl, '--from', small, '--why', 'GPU-20000000-0000-0000-0000-000000000000')
    cases.add('a_gpu_may_be_named_in_three_ways', [] if why == by_uuid == run(shmemctl, '--from', small, '--why', '1') else ['they differ'])
    document = json.loads(run(shmemctl, '--json', '--from', small))
    cases.add('json_has_the_same_map', judge_json(document) +
              ([] if [[nic['name'] for nic in gpu['nics']] for gpu in document['gpus']] == [['mlx5_3'], ['mlx5_0']] else ['another one']) +
              ([] if [nic['name'] for nic in document['excluded']] == ['mlx5_1', 'mlx5_2'] else ['others excluded']))
    first, second = document['nics'][:2]
    cases.add('json_tells_what_is_known_and_what_is_not',
              ([] if first['gids'] == [{'index': 0, 'address': 'fe80::a088:c203:ab:1', 'roce_v2': False, 'interface': ''}] else ['GIDs']) +
              ([] if [first[key] for key in ABILITIES] == ['yes', 'yes', 'no', 'yes'] else ['not what the file says']) +
              ([] if [second[key] for key in ABILITIES] == ['unknown'] * 4 else ['known from nowhere']) +
              ([] if [nic['link'] for nic in document['nics']] == ['infiniband'] * 3 + ['ethernet'] else ['links of another kind']) +
              ([] if [nic[key] for nic in document['nics'][:3] for key in CAPABILITY] == [400000, 4, 800000, 0, 0, 0] else ['capability']))
    again = os.path.join(scratch, 'again.xml')
    with open(again, 'w', encoding='utf-8') as file:
        file.write(run(shmemctl, 'dump', '--from', small))
    replayed = json.loads(run(shmemctl, '--json', '--from', again))
    cases.add('a_dump_replayed_is_the_same_machine', [] if {**replayed, 'source': small} == document else ['it differs'])


@contextlib.contextmanager
def tree(check_tree, check, state):
    """A folder with the sys/ of a machine that shmemctl doctor is judged on."""
    made = subprocess.run([check_tree, 'tree'], capture_output=True, text=True, check=True, env={**os.environ, 'CHECK_TREE': f'{check} {state}'})
    root = re.search(r'^tree (\S+) ', made.stdout, re.M).group(1)
    try:
        yield root
    finally:
        shutil.rmtree(root)


def check_replay(cases, shmemctl, check_tree, scratch):
    checks = re.findall(r'^check (\S+)$', subprocess.run([check_tree], capture_output=True, text=True, check=True).stdout, re.M)
    path = os.path.join(scratch, 'dump.xml')
    problems, reasons = [], set()
    for check, state in itertools.product(checks, ('good', 'failing')):
        with tree(check_tree, check, state) as root, open(path, 'w', encoding='utf-8') as file:
            live = json.loads(run(shmemctl, '--json', root=root))
            file.write(run(shmemctl, 'dump', root=root))
        replayed = json.loads(run(shmemctl, '--json', '--from', path))
        problems += [] if {**replayed, 'source': live['source']} == live else [f'{check} {state}: it differs']
        reasons |= {nic['reason'] for nic in live['excluded']}
    cases.add('a_dump_of_a_machine_replayed_is_the_same_machine',
              problems + lacks('\n'.join(reasons), 'manages the switches', 'virtual function of', 'its port is down', 'is slow'))


def check_mistakes(cases, shmemctl, small, scratch):
    strange = os.path.join(scratch, 'strange.xml')
    with open(strange, 'w', encoding='utf-8') as file:
        file.write('<system>\n<cpu>\n</system>\n')
    said = run(shmemctl, '--from', strange, status=1) + run(shmemctl, '--from', scratch + '/none', status=1) + \
        run(shmemctl, '--from', small, '--why', '7', status=1) + run(shmemctl, 'dump', '--from', small, '--json', status=1) + \
        run(shmemctl, '--from', small, '--svg', scratch + '/no/folder', status=1) + run(shmemctl, 'everything', status=2)
    cases.add('mistakes_are_told', lacks(said, 'line 3: this is not well-formed XML', 'No such file', 'there is no GPU 7', 'dump writes XML',
                                         '/no/folder: No such', 'ACTION must be dump, not everything'))


def too_wide(text):
    return [f'{len(line)} columns: {line!r}' for line in text.split('\n') if len(line) > MAX_WIDTH]


def check_widths(cases, shmemctl, path):
    """Tables fit: devices that are alike share a column, and a line names what is left out."""
    shared, left_out = 'share a row and a column (--wide shows each)', 'left out: distances between NICs (--wide shows them)'

    def show(text, *words):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return run(shmemctl, '--from', path, *words)

    text = show(machine(8, 1, 4))
    rows = text.split('\n')[:17]
    problems = too_wide(text) + lacks(text, shared) + ([left_out] if left_out in text else [])
    problems += [] if rows[0].split()[8:] == [f'NIC{i}-{i + 3}' for i in range(0, 32, 4)] + ['NUMA'] else [rows[0]]
    problems += [] if rows[1].split()[1:] == ['X'] + ['NV18'] * 7 + ['PIX'] + ['NODE'] * 3 + ['SYS'] * 4 + ['0'] else [rows[1]]
    problems += [] if rows[9].split() == 'NIC0-3 PIX NODE NODE NODE SYS SYS SYS SYS PIX NODE NODE NODE SYS SYS SYS SYS 0'.split() else [rows[9]]
    cases.add('eight_gpus_and_32_nics_fit_120_columns', problems)
    # Each pair on a switch of its own, so that none are alike.
    text = show(machine(16, 1, 1))
    rows = text.split('\n')
    heads = [word for row in rows if re.match(r' +(GPU|NIC)', row) for word in row.split()]
    problems = too_wide(text) + lacks(text, left_out) + ([shared] if shared in text else [])
    problems += [] if heads == [f'GPU{i}' for i in range(16)] + [f'NIC{i}' for i in range(16)] + ['NUMA'] else [f'{heads}']
    problems += [f'{row}' for row in rows if re.match(r'NIC\d+ +(X|SYS|NODE|PIX)', row)]
    cases.add('blocks_of_columns_have_every_device', problems)
    wide = show(machine(16, 1, 1), '--wide')
    cases.add('wide_leaves_nothing_out', ([] if too_wide(wide) else ['it is not wide']) + [word for word in (left_out, shared) if word in wide])
    problems = []
    for captured in captures():
        problems += [f'{captured}: {problem}' for problem in too_wide(run(shmemctl, '--from', captured))]
    cases.add('captures_of_real_machines_fit_120_columns', problems)


def check_sizes(cases, shmemctl, scratch):
    """The matrix of a machine with none, and of one with many."""
    path = os.path.join(scratch, 'sizes.xml')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(machine(1, 0, 2))
    said = run(shmemctl, '--from', path, '--why', '0', status=1)
    cases.add('without_gpus_none_is_offered', lacks(said, 'there is no GPU 0: this machine has no GPUs'))
    with open(path, 'w', encoding='utf-8') as file:
        file.write(machine(2, 1, 60))
    rows = run(shmemctl, '--wide', '--from', path).split('\n')[:123]
    heads = ['GPU0', 'GPU1', *(f'NIC{i}' for i in range(120))]
    problems = [] if rows[0].split() == [*heads, 'NUMA'] else [rows[0]]
    problems += [row for head, row in zip(heads, rows[1:]) if row.split()[0] != head or len(row.split()) != 124]
    problems += [f'{head} is not over its column' for head in heads if rows[1 + heads.index(head)].index(' X') != rows[0].index(head)]
    cases.add('heads_of_a_large_matrix_are_apart', problems)
    check_widths(cases, shmemctl, path)


def check_sources(cases, shmemctl, small, scratch):
    """The same from standard input, and what cannot be asked for at once."""
    with open(small, encoding='utf-8') as file:
        done = subprocess.run([shmemctl, 'topology', '--json', '--from', '-'], stdin=file, capture_output=True, text=True, check=False,
                              timeout=60)
    piped, named = json.loads(done.stdout or '{}'), json.loads(run(shmemctl, '--json', '--from', small))
    cases.add('a_machine_can_come_from_standard_input',
              [] if (piped.get('gpus'), piped.get('excluded')) == (named['gpus'], named['excluded']) else [f'{done}'])
    picture = os.path.join(scratch, 'not-drawn.svg')
    said = run(shmemctl, '--from', small, '--svg', picture, '--json', status=1) + \
        run(shmemctl, '--from', small, '--svg', picture, '--why', '0', status=1)
    cases.add('a_picture_is_asked_for_alone', lacks(said, 'ask once more with --json or --why') + ([picture] if os.path.exists(picture) else []))


def check_policy(cases, shmemctl, small, scratch):
    conf = os.path.join(scratch, 'shmemd.conf')

    def with_settings(text, *words, status=0):
        with open(conf, 'w', encoding='utf-8') as file:
            file.write(f'# test\nlog-level = debug\n{text}\n')
        return run(shmemctl, '--from', small, '--config', conf, *words, status=status)

    given = json.loads(with_settings('gpu-nic-map = 0:mlx5_0:1, GPU-20000000-0000-0000-0000-000000000000:mlx5_2', '--json'))
    cases.add('a_map_of_the_settings_is_shown',
              ([] if [[nic['name'] for nic in gpu['nics']] for gpu in given['gpus']] == [['mlx5_0'], ['mlx5_2']] else [str(given['gpus'])]) +
              lacks(given['gpus'][0]['nics'][0]['reason'], 'gpu-nic-map gives it'))
    left = with_settings('gpu-nic-map = 0:mlx5_0:1, 1:mlx5_0:1')
    cases.add('a_nic_that_the_settings_leave_to_nobody_has_its_reason', lacks(left, 'mlx5_3  each GPU has a nearer one, or others by gpu-nic-map'))
    far = os.path.join(scratch, 'far.xml')
    with open(far, 'w', encoding='utf-8') as file:
        file.write('<shmemd-topology version="1"><host><function pci="1:00.0" class="0302" vendor="10de"/><function pci="2:00.0" class="0207">'
                   '<nic name="near" port="1"/></function></host><host><function pci="3:00.0" class="0207"><nic name="far" port="1"/></function>'
                   '</host></shmemd-topology>')
    cases.add('a_nic_that_is_left_over_has_its_reason', lacks(run(shmemctl, '--from', far), 'far   each GPU has a nearer one\n'))
    text = with_settings('nics-exclude = mlx5_3=storage')
    cases.add('what_the_settings_exclude_has_its_reason', lacks(text, 'mlx5_3  it is for storage, by policy'))
    text = with_settings('nics-include = mlx5_0')
    cases.add('what_the_settings_do_not_include_has_its_reason', lacks(text, 'mlx5_3  by policy: nics-include does not name it'))
    said = with_settings('gpu-nic-map = 0:mlx5_7:1', status=1) + with_settings('gpu-nic-map = 1:mlx5_1:1', status=1) + \
        with_settings('gpu-nic-map = 1', status=1) + run(shmemctl, '--config', scratch + '/none', status=1) + \
        run(shmemctl, 'dump', '--config', conf, status=1)
    cases.add('settings_that_cannot_be_followed_are_refused',
              lacks(said, 'this machine has no NIC mlx5_7:1; valid NICs: mlx5_3:1', 'mlx5_1:1 cannot be used: its port is down; valid',
                    'shmemd.conf:3: "1" is not of the form GPU:NIC', '/none: No such file', 'nor --config'))


def check_doubts(cases, shmemctl, small, scratch):
    bare, conf = os.path.join(scratch, 'bare.xml'), os.path.join(scratch, 'doubts.conf')
    with open(bare, 'w', encoding='utf-8') as file:
        file.write(machine(1, 2, 0))

    def warned(source, text):
        with open(conf, 'w', encoding='utf-8') as file:
            file.write(text + '\n')
        done = subprocess.run([shmemctl, 'topology', '--from', source, '--config', conf], capture_output=True, text=True, check=False, timeout=60)
        return done.stderr if not done.returncode else str(done)

    said = warned(small, 'nics-include = mlx5_0') + warned(bare, 'nics-include = soft0, soft63')
    cases.add('settings_that_fit_are_not_warned_of', [said] if said else [])
    said = warned(small, 'nics-include = mlx5_0, mlx5_l')
    wanted = 'shmemctl: warning: nics-include names mlx5_l, a NIC that this machine does not have (did you mean mlx5_1?)\n'
    cases.add('a_typing_error_in_the_settings_is_warned_of', [] if said == wanted else [said])
    said = warned(bare, 'nics-exclude = sotf1')
    cases.add('simulated_nics_are_known_by_their_names', lacks(said, 'nics-exclude names sotf1, a NIC that', '(did you mean soft1?)'))


def check_lost(cases, shmemctl, small, scratch):
    conf = os.path.join(scratch, 'lost.conf')
    with open(conf, 'w', encoding='utf-8') as file:
        file.write('gpu-nic-map = 0:mlx5_1:1\nnics-exclude = mlx5_2\n')
    done = subprocess.run([shmemctl, 'topology', '--json', '--from', small, '--config', conf], capture_output=True, text=True, check=False,
                          timeout=60)
    problems = lacks(done.stderr, 'mlx5_1:1 cannot be used: its port is down', 'the map follows the other settings')
    document = json.loads(done.stdout or '{}')
    first = [nic['name'] for nic in document.get('gpus', [{'nics': []}])[0]['nics']]
    reasons = [nic['reason'] for nic in document.get('excluded', []) if nic['name'] == 'mlx5_2']
    if done.returncode != 1 or len(first) < 1 or 'mlx5_1' in first or reasons != ['by policy: nics-exclude names it']:
        problems.append(f'{done}')
    cases.add('settings_that_cannot_be_followed_are_shown_as_far_as_they_can_be', problems)


def check_pictures(cases, shmemctl, small, scratch):
    text, document = draw(shmemctl, small, scratch)
    cases.add('a_picture_can_be_wrong', planted(text, document))
    cases.add('a_small_machine_is_a_picture', judge_picture(text, document))
    shapes = {'eight_gpus_and_32_nics': (8, 1, 4), 'eight_gpus_and_32_nics_on_one_switch': (1, 8, 32), 'four_pairs': (4, 2, 2),
              'sixteen_gpus_and_64_nics': (16, 1, 4)}
    for name, shape in shapes.items():
        path = os.path.join(scratch, 'machine.xml')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(machine(*shape, name='a_very_long_name_of_a_nic_'))
        text, document = draw(shmemctl, path, scratch)
        cases.add(name + '_fit_on_a_page', judge_picture(text, document) + judge_fans(text, 800 if shape[0] == 1 else 20))
    with open(path, 'w', encoding='utf-8') as file:
        file.write('<shmemd-topology version="1" numa_nodes="2"><host><bridge hops="1"><function pci="1:00:00.0" class="0302" numa="0"/>'
                   '<function pci="2:00:00.0" class="0207" numa="1"/></bridge></host></shmemd-topology>')
    cases.add('a_switch_of_two_numa_nodes_is_a_picture', judge_picture(*draw(shmemctl, path, scratch)))
    problems = []
    for path in captures():
        problems += [f'{path}: {problem}' for problem in judge_picture(*draw(shmemctl, path, scratch))]
        problems += judge_json(json.loads(run(shmemctl, '--json', '--from', path)))
    cases.add('captures_of_real_machines_are_pictures', problems)


# Names as a file may have them: markup and quotes, which stay, and control characters, which become '?'.
HOSTILE = ("<&>\"'\\", '</text><g>', '&amp;<!--', '"/><script>')
BOND = '<b&o>"n\'d"'


def hostile_machine():
    quote = xml.sax.saxutils.quoteattr
    nics = ''.join(f'<function pci="2:{i:02x}:00.0" class="0207"><nic name={quote(name)} port="1" bond={quote(BOND if i < 2 else "")}/>'
                   '</function>' for i, name in enumerate((*HOSTILE, 'e\x1b[31m\x07\x7f\u00fc')))
    return f'<shmemd-topology version="1"><host><function pci="1:00:00.0" class="0302"><gpu name={quote(HOSTILE[0])}/></function>{nics}' \
        '</host></shmemd-topology>'


def judge_hostile_picture(text, source, reason):
    try:
        root = xml.etree.ElementTree.fromstring(text)
    except xml.etree.ElementTree.ParseError as error:
        return [f'no XML: {error}']
    texts, titles = [label.text for label in root.iter(SVG + 'text')], [title.text for title in root.iter(SVG + 'title')]
    wanted = [f'NIC{i} {name}' for i, name in enumerate((*HOSTILE, 'e?[31m????'))] + [f'GPUs and NICs of {source}']
    problems = [f'no label {label!r}' for label in wanted if label not in texts]
    wanted = [HOSTILE[0]] + [f'{name}, 0002:{i:02x}:00.0, port 1, unknown{": " + reason if i == 1 else ""}'
                             for i, name in enumerate((*HOSTILE, 'e?[31m????'))]
    problems += [] if titles == wanted else [f'titles {titles}']
    strange = {element.tag.removeprefix(SVG) for element in root.iter()} - {'svg', 'style', 'rect', 'text', 'title', 'line', 'circle'}
    return problems + ([f'elements of others: {strange}'] if strange else [])


def check_readme(cases, shmemctl, small):
    """The picture in the README, which is drawn in its folder, so that the title has no path."""
    done = subprocess.run([os.path.abspath(shmemctl), 'topology', '--from', 'node.xml', '--svg', '-'], cwd=os.path.dirname(small),
                          capture_output=True, text=True, check=False, timeout=60)
    with open(os.path.join(os.path.dirname(small), 'node.svg'), encoding='utf-8') as file:
        cases.add('the_picture_in_the_readme_is_up_to_date', [] if done.stdout == file.read() else
                  ['draw it again: cd tests/data/topology && shmemctl topology --from node.xml --svg node.svg', done.stderr])


def check_hostile(cases, shmemctl, scratch):
    name = '<&>"\'\x1b' + '\u00fc' * 50
    path, again, conf = (os.path.join(scratch, file) for file in (name + '\udcff', 'hostile.xml', 'hostile.conf'))
    with open(path, 'w', encoding='utf-8') as file:
        file.write(hostile_machine())
    with open(conf, 'w', encoding='utf-8') as file:
        file.write('nics-include = \x1b[31mred\x07 \x1b\n')
    reason = f'it is a further port of the bond {BOND}, which {HOSTILE[0]} stands for'
    text, document = draw(shmemctl, path, scratch)
    cases.add('names_of_others_are_as_written_in_a_picture', judge_hostile_picture(text, name.replace('\x1b', '?')[:48], reason))
    cases.add('names_of_others_are_as_written_in_json', judge_json(document) +
              ([] if [nic['name'] for nic in document['nics'][:4]] == list(HOSTILE) else [f'{document["nics"]}']) +
              ([] if [nic['reason'] for nic in document['excluded']] == [reason] else [f'{document["excluded"]}']))
    shown = run(shmemctl, '--from', path) + run(shmemctl, '--from', path, '--why', '0') + \
        run(shmemctl, '--from', path, '--config', conf, status=1) + run(shmemctl, '--from', path + '\x1b', status=1)
    cases.add('no_control_characters_reach_the_terminal', [repr(line) for line in shown.split('\n') if re.search(r'[\x00-\x1f\x7f]', line)] +
              lacks(shown, *HOSTILE, reason, 'e?[31m??', '?[31mred?'))
    with open(again, 'w', encoding='utf-8') as file:
        file.write(run(shmemctl, 'dump', '--from', path))
    replayed = json.loads(run(shmemctl, '--json', '--from', again))
    cases.add('names_of_others_are_as_written_in_a_dump', [] if {**replayed, 'source': document['source']} == document else ['it differs'])


def main():
    shmemctl, small, check_tree = sys.argv[1:]
    cases = Cases()
    with tempfile.TemporaryDirectory() as scratch:
        check_small(cases, shmemctl, small, scratch)
        check_replay(cases, shmemctl, check_tree, scratch)
        check_flat(cases, shmemctl, scratch)
        check_mistakes(cases, shmemctl, small, scratch)
        check_sizes(cases, shmemctl, scratch)
        check_sources(cases, shmemctl, small, scratch)
        check_policy(cases, shmemctl, small, scratch)
        check_doubts(cases, shmemctl, small, scratch)
        check_lost(cases, shmemctl, small, scratch)
        check_pictures(cases, shmemctl, small, scratch)
        check_words_of_pictures(cases, shmemctl, small, scratch)
        check_absent(cases, shmemctl, scratch)
        check_hostile(cases, shmemctl, scratch)
        check_readme(cases, shmemctl, small)
        this = json.loads(run(shmemctl, '--json'))
        cases.add('this_machine_is_shown_without_a_daemon', judge_json(this) + lacks(this['source'], 'this machine'))
    cases.end()


if __name__ == '__main__':
    main()

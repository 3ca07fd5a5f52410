#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shmemctl config import-env: what becomes of the variables of NVSHMEM and DeepEP, and what is refused.

test-config.py SHMEMCTL. What comes out is read again by shmemctl topology, as a daemon would.
"""
import json
import os
import subprocess
import sys
import tempfile

from ctl_subject import Cases

LIST, PES, DEVICES = 'NVSHMEM_HCA_LIST', 'NVSHMEM_HCA_PE_MAPPING', 'DEEP_EP_DEVICE_TO_HCA_MAPPING'
SWITCH = 'NVSHMEM_ENABLE_NIC_PE_MAPPING'


def run(shmemctl, words, variables, status=0, warned=None):
    """Standard output, or with a status standard error; what there is beside the output goes to warned."""
    environment = {key: value for key, value in os.environ.items() if key not in (LIST, PES, DEVICES, SWITCH)}
    done = subprocess.run([shmemctl, *words], capture_output=True, text=True, check=False, timeout=60,
                          env={**environment, 'SHMEMD_SOCKET': '/nonexistent/socket', **variables})
    if done.returncode != status:
        raise SystemExit(f'{words} {variables}: exit status {done.returncode}\n{done.stdout}{done.stderr}')
    if status and done.stdout:
        raise SystemExit(f'{words} {variables}: refused and written all the same\n{done.stdout}')
    if warned is not None:
        warned.append(done.stderr)
    return done.stdout if status == 0 else done.stderr


def machine(n_gpus, n_nics):
    """GPUs and NICs below one host bridge; mlx5_1 is down."""
    text = '<shmemd-topology version="1"><host>'
    for gpu in range(n_gpus):
        text += f'<function pci="1:{gpu:02x}:00.0" class="0302"/>'
    for nic in range(n_nics):
        state = 'down' if nic == 1 else 'active'
        text += f'<function pci="2:{nic:02x}:00.0" class="0207"><nic name="mlx5_{nic}" port="1" state="{state}"/></function>'
    return text + '</host></shmemd-topology>'


def settings_of(text):
    return [line for line in text.splitlines() if not line.startswith('#')]


class Lab:
    def __init__(self, shmemctl, scratch):
        self.shmemctl = shmemctl
        self.machine = os.path.join(scratch, 'machine.xml')
        self.conf = os.path.join(scratch, 'shmemd.conf')
        self.shape(4, 6)

    def shape(self, n_gpus, n_nics):
        with open(self.machine, 'w', encoding='utf-8') as file:
            file.write(machine(n_gpus, n_nics))

    def import_env(self, status=0, warned=None, **variables):
        return run(self.shmemctl, ['config', 'import-env', '--from', self.machine], variables, status, warned)

    def becomes(self, wanted, *notes, **variables):
        """Problems where the setting is another or a comment is missing."""
        text = self.import_env(**variables)
        problems = [] if settings_of(text) == [wanted] else [f'{variables} became {text!r}']
        return problems + [f'{variables} lacks {note!r}' for note in notes if note not in text]

    def refused(self, *words, **variables):
        said = self.import_env(1, **variables)
        return [f'{variables}: {said!r} lacks {word!r}' for word in words if word not in said]

    def absent(self, *names, **variables):
        """Problems where others than these are told to be absent, in a comment and on standard error."""
        warned = []
        text = self.import_env(warned=warned, **variables)
        told = [line[2:-1] for line in text.splitlines() if line.startswith('# This machine has no NIC')]
        wanted = [f'This machine has no NIC {name}' for name in names]
        said = ''.join(f'shmemctl: t{line[1:]}\n' for line in wanted)
        return [] if told == wanted and warned == [said] else [f'{variables}: {text!r}, {warned}']

    def assigned(self, **variables):
        """{index of a GPU: names of its NICs} by a file with what comes out."""
        with open(self.conf, 'w', encoding='utf-8') as file:
            file.write(self.import_env(**variables))
        document = json.loads(run(self.shmemctl, ['topology', '--json', '--from', self.machine, '--config', self.conf], {}))
        return {gpu['index']: [nic['name'] for nic in gpu['nics']] for gpu in document['gpus']}


def check_lists(cases, lab):
    cases.add('a_list_is_what_is_included', lab.becomes('nics-include = mlx5_0:1, mlx5_2', **{LIST: ' mlx5_0:1 ,mlx5_2'}) +
              ([] if {name for names in lab.assigned(**{LIST: 'mlx5_0:1,mlx5_2'}).values() for name in names} == {'mlx5_0', 'mlx5_2'}
               else ['others are used']))
    cases.add('a_list_behind_a_caret_is_excluded', lab.becomes('nics-exclude = mlx5_3:1, mlx5_9', **{LIST: '^mlx5_3:1,mlx5_9'}) +
              (['mlx5_3 is used'] if 'mlx5_3' in str(lab.assigned(**{LIST: '^mlx5_3:1'})) else []))
    cases.add('lists_without_a_translation_are_refused',
              lab.refused('one ^ before the whole list', **{LIST: 'mlx5_0,^mlx5_1'}) + lab.refused('to NCCL only', **{LIST: '=mlx5_0'}) +
              lab.refused('"mlx5_0:1:2" is not of the form name[:port]', **{LIST: 'mlx5_0:1:2'}) +
              lab.refused('names no NIC', **{LIST: '^ , ,'}) + lab.refused('names no NIC', **{LIST: ','}) + lab.refused('"mlx5_0:0" is not', **{LIST: 'mlx5_0:0'}) +
              lab.refused('"mlx5_0:x" is not', **{LIST: 'mlx5_0:x'}) + lab.refused('"mlx 5?" is not', **{LIST: 'mlx 5\x1b'}) +
              lab.refused('is not of the form', **{LIST: 'n' * 70}) +
              lab.refused('this machine has none of these NICs; valid NICs: mlx5_0:1, mlx5_1:1', **{LIST: 'mlx5_8'}))


def check_commas(cases, lab):
    """NVSHMEM passes over what is empty; DeepEP does not."""
    cases.add('commas_too_many_are_passed_over',
              lab.becomes('nics-include = mlx5_0:1, mlx5_2', **{LIST: ',mlx5_0:1,, mlx5_2 , '}) +
              lab.becomes('nics-exclude = mlx5_3', **{LIST: '^mlx5_3,'}) +
              lab.becomes('gpu-nic-map = 0:mlx5_3:1, 1:mlx5_3:1, 2:mlx5_0, 3:mlx5_3:1', **{PES: 'mlx5_3:1:2,,mlx5_0,'}))
    cases.add('commas_too_many_are_refused_where_they_are_there',
              lab.refused('"" is not of the form device:name[:port]', **{DEVICES: '0:mlx5_0,'}) +
              lab.refused('"" is not', **{DEVICES: '0:mlx5_0,,1:mlx5_2'}) + lab.refused('names no NIC', **{PES: ', ,'}))


def check_absent(cases, lab):
    cases.add('nics_of_a_list_that_are_absent_are_told',
              lab.absent('mlx5_8', 'mlx5_2:2', **{LIST: 'mlx5_0,mlx5_8,mlx5_2:2,mlx5_1:1'}) + lab.absent('mlx5_9:1', **{LIST: '^mlx5_9:1,mlx5_0'}) +
              lab.absent('mlx5_7', **{PES: 'mlx5_0,mlx5_7', SWITCH: '0'}) + lab.absent(**{LIST: 'mlx5_0,mlx5_5:1'}))


def check_switch(cases, lab):
    """NVSHMEM pins by the mapping only where it is told so."""
    facts = ('in the order of its list of devices', SWITCH + '=1: without')
    mapping = {PES: 'mlx5_3:1:2,mlx5_0,mlx5_3:1'}
    cases.add('how_nvshmem_takes_a_mapping_is_told',
              lab.becomes('gpu-nic-map = 0:mlx5_3:1, 1:mlx5_3:1, 2:mlx5_0, 3:mlx5_3:1', *facts, **mapping) +
              [problem for on in ('1', 'yes', 'TRUE', ' ', '') for problem in
               lab.becomes('gpu-nic-map = 0:mlx5_3:1, 1:mlx5_3:1, 2:mlx5_0, 3:mlx5_3:1', *facts, **mapping, **{SWITCH: on})])
    cases.add('a_mapping_that_nvshmem_does_not_pin_by_is_a_list',
              [problem for off in ('0', 'no', 'N', 'false', 'F') for problem in
               lab.becomes('nics-include = mlx5_3:1, mlx5_0', SWITCH + ' is off', 'distance decides', **mapping, **{SWITCH: off})] +
              ([] if {name for names in lab.assigned(**mapping, **{SWITCH: '0'}).values() for name in names} == {'mlx5_3', 'mlx5_0'}
               else ['others are used']))
    told = f'# By {SWITCH} NVSHMEM deals these NICs out'
    cases.add('a_list_that_nvshmem_deals_out_is_told',
              lab.becomes('nics-include = mlx5_0, mlx5_2', told, **{LIST: 'mlx5_0,mlx5_2', SWITCH: '1'}) +
              ([] if told not in lab.import_env(**{LIST: 'mlx5_0', SWITCH: '0'}) + lab.import_env(**{LIST: 'mlx5_0'}) else ['told without']) +
              lab.refused('nothing to import', **{SWITCH: '1'}))


def check_maps(cases, lab):
    cases.add('pes_are_gpus_in_their_order', lab.becomes('gpu-nic-map = 0:mlx5_3:1, 1:mlx5_3:1, 2:mlx5_0:1, 3:mlx5_0:1', 'PE 0 of a node',
                                                         **{PES: 'mlx5_3:1:2,mlx5_0:1:2'}) +
              ([] if lab.assigned(**{PES: 'mlx5_3:1:2,mlx5_0:1:2'}) == {0: ['mlx5_3'], 1: ['mlx5_3'], 2: ['mlx5_0'], 3: ['mlx5_0']}
               else ['assigned otherwise']))
    cases.add('pes_begin_again_where_there_are_more_gpus',
              lab.becomes('gpu-nic-map = 0:mlx5_0:1, 1:mlx5_2:1, 2:mlx5_4, 3:mlx5_0:1', '3 PEs for 4 GPUs: they start again',
                          **{PES: 'mlx5_0:1:1,mlx5_2:1,mlx5_4'}))
    cases.add('pes_without_a_gpu_are_left_out', lab.becomes('gpu-nic-map = 0:mlx5_0:1, 1:mlx5_0:1, 2:mlx5_0:1, 3:mlx5_0:1', 'left out',
                                                            **{PES: 'mlx5_0:1:8'}))
    cases.add('devices_are_gpus', lab.becomes('gpu-nic-map = 0:mlx5_2:1, 3:mlx5_5', 'PCI_BUS_ID', **{DEVICES: '0:mlx5_2:1,3:mlx5_5'}) +
              ([] if lab.assigned(**{DEVICES: '3:mlx5_5:1,0:mlx5_2:1'})[3] == ['mlx5_5'] else ['GPU 3 has another']))
    cases.add('maps_without_a_translation_are_refused',
              lab.refused('"mlx5_0:1:0" is not of the form name[:port[:count]], for 64 PEs at most', **{PES: 'mlx5_0:1:0'}) +
              lab.refused('for 64 PEs', **{PES: 'mlx5_0:1:64,mlx5_2:1:1'}) + lab.refused('is not of', **{PES: 'mlx5_0:1:2:3'}) +
              lab.refused('"0:mlx5_0:1:1" is not of the form device:name[:port], each device once', **{DEVICES: '0:mlx5_0:1:1'}) +
              lab.refused('"0:mlx5_2" is not', **{DEVICES: '0:mlx5_0,0:mlx5_2'}) + lab.refused('is not', **{DEVICES: 'GPU-1:mlx5_0'}) +
              lab.refused('is not', **{DEVICES: 'mlx5_0'}) + lab.refused('is not', **{DEVICES: '64:mlx5_0'}))
    valid = 'valid NICs: mlx5_0:1, mlx5_2:1, mlx5_3:1, mlx5_4:1, mlx5_5:1'
    cases.add('what_the_machine_cannot_do_is_refused_with_what_it_can',
              lab.refused('mlx5_1:1 cannot be used: its port is down; ' + valid, **{DEVICES: '0:mlx5_1:1'}) +
              lab.refused('this machine has no NIC mlx5_0:2; ' + valid, **{PES: 'mlx5_0:2:8'}) +
              lab.refused('this machine has no GPU 4; valid GPUs: 0 to 3', **{DEVICES: '4:mlx5_0:1'}))


def check_several(cases, lab):
    cases.add('the_one_that_counts_there_counts_here',
              lab.becomes('nics-include = mlx5_0', '# NVSHMEM_HCA_PE_MAPPING does not count: NVSHMEM ignores it',
                          **{LIST: 'mlx5_0', PES: 'mlx5_2:1:8'}) +
              lab.becomes('gpu-nic-map = 0:mlx5_3', '# NVSHMEM_HCA_LIST does not count: DeepEP', '# NVSHMEM_HCA_PE_MAPPING does not count',
                          **{DEVICES: '0:mlx5_3', LIST: 'mlx5_0', PES: 'mlx5_2:1:8'}))
    lab.shape(0, 4)
    cases.add('without_gpus_nothing_is_checked_and_that_is_said',
              lab.becomes('gpu-nic-map = 0:mlx5_0:1, 1:mlx5_7:1', 'Not checked', **{PES: 'mlx5_0:1:1,mlx5_7:1:1'}))
    lab.shape(64, 4)
    long_name = 'n' * 63
    said = lab.refused('gpu-nic-map: it has more than 4095 bytes', **{PES: long_name + ':1:64'})
    said += lab.refused('nothing to import: none of NVSHMEM_HCA_LIST,', **{LIST: ' ', PES: ''})
    cases.add('nothing_and_too_much_are_refused', said)
    text = run(lab.shmemctl, ['config', 'import-env', '--json'], {LIST: 'a'}, 1) + run(lab.shmemctl, ['config'], {}, 2) + \
        run(lab.shmemctl, ['config', 'show'], {}, 2) + run(lab.shmemctl, ['config', 'import-env', '--from', '/nonexistent'], {LIST: 'a'}, 1)
    cases.add('mistakes_are_told', [f'lacks {word!r}' for word in ('takes no --json', 'needs ACTION: import-env', 'ACTION must be import-env',
                                                                   'No such file') if word not in text])


def main():
    cases = Cases()
    with tempfile.TemporaryDirectory() as scratch:
        lab = Lab(sys.argv[1], scratch)
        check_lists(cases, lab)
        check_commas(cases, lab)
        check_absent(cases, lab)
        check_switch(cases, lab)
        check_maps(cases, lab)
        check_several(cases, lab)
    cases.end()


if __name__ == '__main__':
    main()

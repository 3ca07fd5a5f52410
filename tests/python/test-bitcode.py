#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libshmd_device.bc: test-bitcode.py WHAT ROOT BITCODE CLANG PTXAS

names   the table of the Python package has the functions of device.cu with their arguments, and the bitcode defines them
text    the changes that compile.py makes to the text of LLVM
ptx     the bitcode becomes PTX without undefined names
ptxas   ptxas of CUDA 12.3 or later takes that PTX for sm_90
"""
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

SCOPES = ("thread", "warp", "block")
LETTERS = {"uint64_t": "l", "int": "i"}
FUNCTION = re.compile(r'(?:SHMDB_API|extern "C" __device__ (uint64_t)) shmd_bc_(\w+?)(_##scope)?\(([^)]*)\)')


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_source(text):
    """name: (arguments, whether it has a scope, whether it returns 64 bits)"""
    found = {}
    for wide, name, scoped, arguments in FUNCTION.findall(text.replace("\\\n", " ")):
        letters = "".join(LETTERS[argument.split()[0]] for argument in arguments.split(","))
        found[name] = (letters, bool(scoped), bool(wide))
    return found


def names(root, bitcode):
    table = load(root / "python/shmemclient/_device.py")
    wanted = {name: (kinds, True, name in table.WIDE) for name, kinds in table.SCOPED.items()}
    wanted |= {name: (kinds, False, name in table.WIDE) for name, kinds in table.PLAIN.items()}
    source = of_source((root / "kernels/bitcode/device.cu").read_text(encoding="utf-8"))
    wrong = [f"{name}: {source.get(name)} in device.cu, {wanted.get(name)} in the table"
             for name in sorted(source | wanted) if source.get(name) != wanted.get(name)]
    data = bitcode.read_bytes()
    symbols = [f"shmd_bc_{name}_{scope}" for name in table.SCOPED for scope in SCOPES] + [f"shmd_bc_{name}" for name in table.PLAIN]
    wrong += [f"{symbol}: not in the bitcode" for symbol in symbols if symbol.encode() not in data]
    return wrong


TEXT = '''source_filename = "/somewhere/device.cu"
define internal i32 @f(%struct.s* nocapture readonly byval(%struct.s) align 8 %1, i64 %10) #0 {
  %2 = load i64, i64* %10
  %3 = getelementptr %struct.s, %struct.s* %1, i64 0
}
define i32 @g(%struct.s* %0) #0 {
  %2 = tail call i32 @f(%struct.s* nonnull byval(%struct.s) align 8 %0, i64 1)
  %3 = tail call i32 @h(i64 1)
}
attributes #0 = { convergent "no-builtins" "target-cpu"="sm_80" "target-features"="+ptx70" }
!llvm.module.flags = !{!0}
'''
CHANGED = '''source_filename = "device.cu"
define internal i32 @f(%struct.s* nocapture readonly %1, i64 %10) #0 {
  %own.1 = alloca %struct.s, align 8
  %value.1 = load %struct.s, %struct.s* %1, align 8
  store %struct.s %value.1, %struct.s* %own.1, align 8
  %2 = load i64, i64* %10
  %3 = getelementptr %struct.s, %struct.s* %own.1, i64 0
}
define i32 @g(%struct.s* %0) #0 {
  %2 = call i32 @f(%struct.s* nonnull %0, i64 1)
  %3 = tail call i32 @h(i64 1)
}
attributes #0 = { convergent }
'''


def text(root):
    found = load(root / "kernels/bitcode/compile.py").changed(TEXT)
    return [] if found == CHANGED else [f"the text became:\n{found}"]


def to_ptx(bitcode, clang):
    return subprocess.run([clang, "--target=nvptx64-nvidia-cuda", "-x", "ir", "-S", "-O1", "-Wno-override-module", "-Xclang", "-target-cpu", "-Xclang",
                           "sm_80", "-Xclang", "-target-feature", "-Xclang", "+ptx70", bitcode, "-o", "-"],
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def ptx(bitcode, clang):
    made = to_ptx(bitcode, clang)
    wrong = [line for line in made.splitlines() if line.startswith(".extern")]
    return wrong if ".visible .func" in made else wrong + ["no functions"]


def ptxas(bitcode, clang, assembler):
    # The statements for doorbells are of PTX 8.2, whatever the compiler says.
    made = re.sub(r"^\.version .*", ".version 8.3", to_ptx(bitcode, clang), flags=re.MULTILINE)
    made = re.sub(r"^\.target .*", ".target sm_90", made, flags=re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "device.ptx"
        source.write_text(made, encoding="utf-8")
        done = subprocess.run([assembler, "-arch=sm_90", "-c", source, "-o", source.with_suffix(".o")], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[:20] if done.returncode else []


def main():
    what, root, bitcode, *tools = sys.argv[1:]
    root, bitcode = pathlib.Path(root), pathlib.Path(bitcode)
    wrong = {"names": lambda: names(root, bitcode), "text": lambda: text(root), "ptx": lambda: ptx(bitcode, *tools),
             "ptxas": lambda: ptxas(bitcode, *tools)}[what]()
    sys.exit("\n".join(wrong) or 0)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile device.cu to libshmd_device.bc: compile.py CLANG OUTPUT DEPFILE SOURCE [ARGUMENT...]

The bitcode is linked into kernels by other versions of LLVM. So its text form is changed before it is packed:

- It does not say for which processor, PTX version and library functions it was compiled. Those attributes keep LLVM from inlining a function into a
  kernel that has others, and the flags of the module collide with those of the kernel's.
- No function has parameters by value in memory (byval): the LLVM of Triton 3.6 fails an assertion on those that change theirs. The function
  gets the address instead and makes the copy, as byval means.
- It does not name a folder of the machine on which it was made.
"""

import re
import subprocess
import sys

# The first GPU that the device functions support, and the oldest PTX that has it. PTX of newer versions is in asm statements only.
TO_TEXT = ["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80", "-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version",
           "-Xclang", "-target-feature", "-Xclang", "+ptx70", "-std=c++17", "-O2", "-ffreestanding", "-fomit-frame-pointer",
           "-Wall", "-Wextra", "-Werror", "-emit-llvm", "-S"]
TO_BITCODE = ["--target=nvptx64-nvidia-cuda", "-x", "ir", "-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-Wno-override-module"]
OF_A_TARGET = re.compile(r' "(?:target-cpu|target-features|frame-pointer|stack-protector-buffer-size|min-legal-vector-width)"="[^"]*"'
                         r'| nobuiltin\b| "no-builtins"')
FLAGS = re.compile(r"^!llvm\.module\.flags = .*\n", re.MULTILINE)
FROM = re.compile(r'^source_filename = ".*/', re.MULTILINE)
BY_VALUE = re.compile(r" byval\(([^()]+)\) align (\d+)")
PARAMETER = re.compile(BY_VALUE.pattern + r" (%\d+)")
FUNCTION = re.compile(r"^(define [^\n]+\{\n)(.*?)^\}\n", re.MULTILINE | re.DOTALL)


def with_copies(function):
    """The body uses a copy of each parameter that was by value. A pointer has a type of its own in the text of LLVM up to 14, ptr later."""
    head, body = function.groups()
    copies = ""
    for kind, align, name in PARAMETER.findall(head):
        own, value = f"%own.{name[1:]}", f"%value.{name[1:]}"
        pointer = "ptr" if re.search(r"\bptr\b", head) else kind + "*"
        body = re.sub(re.escape(name) + r"(?![\w.])", own, body)
        copies += (f"  {own} = alloca {kind}, align {align}\n  {value} = load {kind}, {pointer} {name}, align {align}\n"
                   f"  store {kind} {value}, {pointer} {own}, align {align}\n")
    return BY_VALUE.sub("", head) + copies + body + "}\n"


def without_by_value(text):
    """A tail call must not be given the address of a local variable."""
    calls = [BY_VALUE.sub("", line.replace("tail call", "call")) if " call " in line and BY_VALUE.search(line) else line
             for line in text.split("\n")]
    return FUNCTION.sub(with_copies, "\n".join(calls))


def changed(text):
    return without_by_value(FROM.sub('source_filename = "', FLAGS.sub("", OF_A_TARGET.sub("", text))))


def main():
    clang, output, depfile, source, *arguments = sys.argv[1:]
    text = subprocess.run([clang, *TO_TEXT, *arguments, "-MD", "-MF", depfile, "-MT", output, source, "-o", "-"],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    subprocess.run([clang, *TO_BITCODE, "-", "-o", output], input=changed(text), check=True, text=True)


if __name__ == "__main__":
    main()

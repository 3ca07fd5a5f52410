/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that harnesses define for libFuzzer, and those that it offers them. corpus-main.c calls the first on files. */
#ifndef SHMD_TESTS_FUZZ_FUZZ_H
#define SHMD_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Changes an input of `bytes` bytes to one of at most max_bytes and returns its size. mutate-NAME.c, where it is. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t max_bytes);

#endif

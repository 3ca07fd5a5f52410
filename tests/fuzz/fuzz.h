/* SPDX-License-Identifier: Apache-2.0 */
/* What each harness defines: libFuzzer's entry point. corpus-main.c calls it on files. */
#ifndef SHMD_TESTS_FUZZ_FUZZ_H
#define SHMD_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#endif

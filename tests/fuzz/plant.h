/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before every file of a build with -Dfuzz_plant=true, which defines FUZZ_PLANT. Each harness has a bug of its
 * own in the code under it, "#ifdef FUZZ_PLANT", and must find it; PLANTED(name) is true in the fuzzer of that name
 * alone. tests/fuzz/README.md has the list.
 */
#ifndef SHMD_TESTS_FUZZ_PLANT_H
#define SHMD_TESTS_FUZZ_PLANT_H

extern const char fuzz_plant[] __attribute__((weak)); /* the harness's name; absent from every other program */

#define PLANTED(name) (fuzz_plant && __builtin_strcmp(fuzz_plant, (name)) == 0)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before the one source of plant-NAME that has its planted bug, "#ifdef FUZZ_PLANT". FUZZ_PLANT_NAME is NAME.
 * Every other program is compiled without FUZZ_PLANT. tests/fuzz/README.md has the list.
 */
#ifndef SHMD_TESTS_FUZZ_PLANT_H
#define SHMD_TESTS_FUZZ_PLANT_H

#define PLANTED(name) (__builtin_strcmp(FUZZ_PLANT_NAME, (name)) == 0)

#endif

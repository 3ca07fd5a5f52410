/* SPDX-License-Identifier: Apache-2.0 */
/* Which planted bug this fuzzer is to find: FUZZ_PLANT_NAME is the harness's name. */
#include "tests/fuzz/plant.h"

const char fuzz_plant[] = FUZZ_PLANT_NAME;

/* SPDX-License-Identifier: Apache-2.0 */
/* In C11, by _Generic. */
#include "tests/openshmem/osh-generic.inc.h"

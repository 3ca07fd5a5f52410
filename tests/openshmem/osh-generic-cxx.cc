/* SPDX-License-Identifier: Apache-2.0 */
/* In C++, by overloads. */
#include "tests/openshmem/osh-generic.inc.h"

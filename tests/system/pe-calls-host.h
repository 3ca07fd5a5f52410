/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMEMD_TESTS_PE_CALLS_HOST_H
#define SHMEMD_TESTS_PE_CALLS_HOST_H

#include "tests/dev/pe-program.h"

/* The host calls of <shmd.h>; a context is a struct shmd_ctx. */
extern const struct pe_calls pe_calls_host;

#endif

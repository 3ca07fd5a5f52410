/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMEMD_TESTS_MLX5SIM_FW_TRACE_H
#define SHMEMD_TESTS_MLX5SIM_FW_TRACE_H

#include <stddef.h>
#include <stdio.h>

/* A command to the trace, if there is one. */
void fw_trace(FILE *to, const void *in, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of bench-mlx5 share. They return false when something could not be done, and have said what. */
#ifndef SHMEMD_BENCH_MLX5_H
#define SHMEMD_BENCH_MLX5_H

#include "bench.h"

#define N_QPS 1000u
#define DEPTH 256u

extern struct shmd_client *bench_control; /* of SHMD_ROLE_CONTROL */

bool bench_open_client(struct bench_end *end);
bool bench_open_nic(struct bench_end *end);
bool bench_make_queues(struct bench_end *end, unsigned int n, enum shmd_qp_type type);

/* In daemons that have served little before: memory that is free there does not count when it is used again. */
bool bench_memory_rc(void);
bool bench_memory_dc(void);

#endif

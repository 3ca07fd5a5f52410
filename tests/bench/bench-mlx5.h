/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of bench-mlx5. They return false when something could not be done, after printing it. */
#ifndef SHMEMD_BENCH_MLX5_H
#define SHMEMD_BENCH_MLX5_H

#include "bench.h"

/* Commands are those that the simulator counts for mlx5_0, of all processes. */
struct bench_mark {
	uint64_t nsec, commands;
};

struct bench_mark bench_mark_now(void);
/* No session is there, and none of the commands that its end takes is under way. */
bool bench_wait_for_quiet(void);

/* Several figures of one run. */
struct bench_figures {
	const char *name;
	unsigned int per; /* commands are reported per so many; 0: 1 */
	double goal_commands;
	double msec[BENCH_MAX_RUNS], commands[BENCH_MAX_RUNS];
	unsigned int n, n_told;
};

void bench_add(struct bench_figures *f, double msec, double commands);

#define N_QPS 1000u
#define DEPTH 256u

extern struct shmd_client *bench_control; /* of SHMD_ROLE_CONTROL */

bool bench_open_client(struct bench_end *end);
bool bench_open_nic(struct bench_end *end);
bool bench_make_queues(struct bench_end *end, unsigned int n, enum shmd_qp_type type);

/* Without contexts made in advance, and with: alternating. */
bool bench_attach(void);
bool bench_attach_once(void);

/* In daemons that have served little before: memory that is free there does not count when it is used again. */
bool bench_memory_rc(void);
bool bench_memory_dc(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that shmemperf starts, one at a time, and the MPS server that lets two PEs of one GPU run side by side. One thread. */
#ifndef SHMEMD_BENCH_PERF_RUN_H
#define SHMEMD_BENCH_PERF_RUN_H

/*
 * From now on SIGINT, SIGTERM and SIGHUP wait, so that the server does not outlive the program: perf_run() ends with -EINTR while one is there.
 * perf_take_signal() returns its number and takes it away, 0: none.
 */
void perf_hold_signals(void);
int perf_take_signal(void);

/*
 * Run a program until it ends, with all of its stdout in *ret_text; its stderr is the caller's. Returns its exit status, 128 + the number of the signal
 * that ended it, or negative: -ETIMEDOUT (it and its process group were killed), -E2BIG (more than 1 MiB of output), -EINTR, or what the system said. The
 * caller frees the text, which is there after an error, too, and NULL where nothing was started. `input` is what it reads, or NULL.
 */
int perf_run(const char *const argv[], unsigned int timeout_sec, const char *input, char **ret_text);

/*
 * A server of its own for what is started from now on, with its files in `folder`; each PE gets half of the GPU. -ENOENT: the host has no MPS,
 * -EIO: it did not start.
 */
int perf_mps_start(const char *folder);
void perf_mps_stop(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of the host on GPU memory: the kernels of calls on streams, on a stream of the team's own, for which the call waits.
 *
 * The stream is the team's because the kernel waits for other PEs: nothing else may stand behind it, least of all the library's copies by which
 * kernels learn of a PE that has ended. The first call on a team makes it, and may wait for kernels as CUDA's allocations do.
 *
 * Refused	collect, alltoalls and scans, for which calls on streams have no kernels.
 * Threads	one call at a time on a team, kernels of the program included: they are one series of collectives.
 * Errors	a negative errno and a sentence by shmd_error_set().
 */
#ifndef SHMD_COLL_GPU_H
#define SHMD_COLL_GPU_H

#include "libclient/runtime/stream/stream-call.h"
#include "libclient/runtime/team/team.h"

/* call: all that the kernel of a collective reads, but addresses of context, team and failure. what: for sentences. */
int coll_gpu_run(struct shmd_team *team, enum stream_kernel kernel, struct stream_call call, const char *what);
/*
 * Waits until the messages of these kernels are complete: one that failed may have left some. Where the team had no such call, or the world has
 * no queues: nothing. ret_status: how the quiet ended.
 */
int coll_gpu_settle(struct shmd_team *team, int *ret_status);
/* -EOPNOTSUPP */
int coll_gpu_refuse(const char *what);

#endif

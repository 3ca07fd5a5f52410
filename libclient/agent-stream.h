/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream of a memory agent on one GPU: writes of words, copies, and the wait for all of it.
 *
 * Writes of aligned words wait until something else follows, and go to the driver many at a time, with the mark behind them: a word
 * of host memory that the stream itself writes when everything in front of it has been done. The wait looks at this word and makes no call. A
 * driver without memory operations of streams gets copies, and is asked whether the stream has come to its end.
 *
 * Everything takes effect in the order of the calls. What CUDA refuses is the fault of one operation, which gets a status; any other failure is
 * the end of the context, and is returned. The agent's thread, but making and freeing.
 */
#ifndef SHMD_AGENT_STREAM_H
#define SHMD_AGENT_STREAM_H

#include "libclient/agent-ring.h"
#include "libclient/gpu-private.h"

#define AGENT_STREAM_WRITES (CUDA_MAX_MEMOPS - 1) /* that wait; the mark comes behind them */

struct agent_stream {
	struct shmd_gpu *gpu;
	cuda_stream stream;
	bool lacks_memops;
	uint64_t *mark; /* a page of its own; NULL: lacks_memops */
	cuda_address mark_on_gpu;
	uint64_t n_marks; /* what it has when all is done */
	unsigned int n_writes; /* that wait */
	struct agent_op *writers[AGENT_STREAM_WRITES]; /* whose they are */
	struct cuda_memop memops[CUDA_MAX_MEMOPS];
};

/* The client's lock is held in these two. A stream that could not be made is freed too. */
int agent_stream_init(struct agent_stream *stream, struct shmd_gpu *gpu);
void agent_stream_deinit(struct agent_stream *stream);

/* The GPU's context is current in the others. `value` is also the first op->bytes at op->payload. Its status may change until the wait. */
int agent_stream_write(struct agent_stream *stream, struct agent_op *op, uint64_t value);
int agent_stream_copy_in(struct agent_stream *stream, struct agent_op *op);
int agent_stream_copy_out(struct agent_stream *stream, struct agent_op *op);
/* All is done, also after a failure. */
int agent_stream_wait(struct agent_stream *stream);

#endif

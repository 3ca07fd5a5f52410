/* SPDX-License-Identifier: Apache-2.0 */
/* See agent-stream.h. */
#include "libclient/agent-stream.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define QUIET_ROUNDS 256u /* some 10 us of looking at the mark alone; then it asks whether the GPU still works */

/* ---- making ---------------------------------------------------------------------------------------------------------- */

static cuda_result make_stream(const struct cuda_api *cuda, cuda_stream *ret_stream)
{
	int least, greatest;

	if (cuda->stream_create_priority && cuda->priority_range && cuda->priority_range(&least, &greatest) == CUDA_OK)
		return cuda->stream_create_priority(ret_stream, CUDA_STREAM_NON_BLOCKING, greatest);
	return cuda->stream_create(ret_stream, CUDA_STREAM_NON_BLOCKING);
}

/* Shared memory, since the driver maps it once more. */
static int make_mark(struct agent_stream *stream)
{
	const struct cuda_api *cuda = stream->gpu->cuda;
	void *page = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cuda_result result;

	if (page == MAP_FAILED)
		return text_fail(-errno, "no memory for a memory agent");
	result = cuda->host_register(page, page_bytes(), CUDA_REGISTER_PORTABLE | CUDA_REGISTER_MAP);
	if (result != CUDA_OK) {
		munmap(page, page_bytes());
		return cuda_fail(cuda, result, "register memory of the memory agent with the GPU");
	}
	stream->mark = page;
	result = cuda->host_address(&stream->mark_on_gpu, page, 0);
	return result == CUDA_OK ? 0 : cuda_fail(cuda, result, "find memory of the memory agent on the GPU");
}

static int make(struct agent_stream *stream)
{
	cuda_result result = make_stream(stream->gpu->cuda, &stream->stream);

	if (result != CUDA_OK)
		return cuda_fail(stream->gpu->cuda, result, "make a stream");
	return stream->lacks_memops ? 0 : make_mark(stream);
}

int agent_stream_init(struct agent_stream *stream, struct shmd_gpu *gpu)
{
	int r = gpu_enter(gpu);

	if (r < 0)
		return r;
	stream->gpu = gpu;
	stream->lacks_memops = !gpu->cuda->stream_batch;
	r = make(stream);
	gpu_leave(gpu);
	return r;
}

void agent_stream_deinit(struct agent_stream *stream)
{
	struct shmd_gpu *gpu = stream->gpu;

	if (stream->stream && gpu_may_call_cuda(gpu->client) && !gpu_enter(gpu)) {
		(void)gpu->cuda->stream_destroy(stream->stream);
		if (stream->mark)
			(void)gpu->cuda->host_unregister(stream->mark);
		gpu_leave(gpu);
	}
	if (stream->mark)
		munmap(stream->mark, page_bytes());
}

/* ---- writes ---------------------------------------------------------------------------------------------------------- */

/* A refusal at once is the fault of one request; any other error is the end of the context. */
static int judge(const struct agent_stream *stream, struct agent_op *op, cuda_result result)
{
	if (result == CUDA_OK)
		return 0;
	if (result != CUDA_INVALID_VALUE)
		return cuda_fail(stream->gpu->cuda, result, "carry out a request of the NIC");
	op->status = -EFAULT;
	return 0;
}

/* CUDA looks at all of a batch before it does any of it: those it refuses are found one by one, the others come in their order. */
static int write_singly(struct agent_stream *stream)
{
	const struct cuda_api *cuda = stream->gpu->cuda;
	int r = 0;

	for (unsigned int i = 0; i < stream->n_writes && !r; i++) {
		struct agent_op *op = stream->writers[i];
		cuda_result result = CUDA_NOT_SUPPORTED;

		if (!stream->lacks_memops)
			result = cuda->stream_batch(stream->stream, 1, &stream->memops[i], 0);
		stream->lacks_memops |= result == CUDA_NOT_SUPPORTED;
		if (result == CUDA_NOT_SUPPORTED) {
			memcpy(op->payload, &stream->memops[i].value, op->bytes);
			result = cuda->copy_in(op->addr, op->payload, op->bytes, stream->stream);
		}
		r = judge(stream, op, result);
	}
	stream->n_writes = 0;
	return r;
}

/* Writes that wait, and what is in the batch behind them. 1: CUDA does not take them together. */
static int send(struct agent_stream *stream, unsigned int n)
{
	cuda_result result = stream->gpu->cuda->stream_batch(stream->stream, n, stream->memops, 0);

	if (result == CUDA_INVALID_VALUE || result == CUDA_NOT_SUPPORTED)
		return 1;
	stream->n_writes = 0;
	return result == CUDA_OK ? 0 : cuda_fail(stream->gpu->cuda, result, "carry out requests of the NIC");
}

static int flush(struct agent_stream *stream)
{
	int r = stream->n_writes ? send(stream, stream->n_writes) : 0;

	return r > 0 ? write_singly(stream) : r;
}

static struct cuda_memop memop_write(uint64_t addr, uint64_t bytes, uint64_t value)
{
	return (struct cuda_memop){.kind = bytes == 4 ? CUDA_MEMOP_WRITE4 : CUDA_MEMOP_WRITE8, .addr = addr, .value = value};
}

int agent_stream_write(struct agent_stream *stream, struct agent_op *op, uint64_t value)
{
	int r = 0;

	if (stream->lacks_memops || (op->bytes != 4 && op->bytes != 8) || op->addr % op->bytes)
		return agent_stream_copy_in(stream, op);
	if (stream->n_writes == AGENT_STREAM_WRITES)
		r = flush(stream);
	stream->writers[stream->n_writes] = op;
	stream->memops[stream->n_writes++] = memop_write(op->addr, op->bytes, value);
	return r;
}

/* ---- copies ---------------------------------------------------------------------------------------------------------- */

int agent_stream_copy_in(struct agent_stream *stream, struct agent_op *op)
{
	int r = flush(stream);

	return r < 0 ? r : judge(stream, op, stream->gpu->cuda->copy_in(op->addr, op->payload, op->bytes, stream->stream));
}

int agent_stream_copy_out(struct agent_stream *stream, struct agent_op *op)
{
	int r = flush(stream);

	return r < 0 ? r : judge(stream, op, stream->gpu->cuda->copy_out(op->payload, op->addr, op->bytes, stream->stream));
}

/* ---- the wait -------------------------------------------------------------------------------------------------------- */

static int judge_wait(const struct agent_stream *stream, cuda_result result)
{
	return result == CUDA_OK ? 0 : cuda_fail(stream->gpu->cuda, result, "wait for requests of the NIC");
}

static int wait_end(struct agent_stream *stream)
{
	const struct cuda_api *cuda = stream->gpu->cuda;
	cuda_result result = cuda->stream_query(stream->stream);

	for (uint32_t round = 0; result == CUDA_NOT_READY; result = cuda->stream_query(stream->stream))
		shmd_dev_host_relax(round++);
	return judge_wait(stream, result);
}

/* A GPU that has failed writes no mark. */
static int wait_mark(struct agent_stream *stream)
{
	for (uint32_t round = 0; round < QUIET_ROUNDS; round++) {
		if (__atomic_load_n(stream->mark, __ATOMIC_ACQUIRE) == stream->n_marks)
			return 0;
		shmd_dev_host_relax(0);
	}
	return wait_end(stream);
}

/* 1: the driver has no memory operations of streams. */
static int put_mark(struct agent_stream *stream)
{
	int r;

	stream->memops[stream->n_writes] = memop_write(stream->mark_on_gpu, 8, ++stream->n_marks);
	r = send(stream, stream->n_writes + 1);
	if (r <= 0)
		return r;
	r = write_singly(stream);
	stream->memops[0] = memop_write(stream->mark_on_gpu, 8, stream->n_marks);
	return r < 0 ? r : send(stream, 1);
}

int agent_stream_wait(struct agent_stream *stream)
{
	int r = stream->lacks_memops ? flush(stream) : put_mark(stream), r2;

	stream->lacks_memops |= r > 0;
	r2 = stream->lacks_memops || r < 0 ? wait_end(stream) : wait_mark(stream);
	return r < 0 ? r : r2;
}

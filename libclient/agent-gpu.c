/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying out a NIC's reads, writes and atomics on a GPU.
 *
 * Everything goes through one stream of the GPU's, which does not wait for other streams and has the highest priority, so it does not wait
 * for kernels of the program. Writes of one aligned word are memory operations of the stream, everything else are copies from and to the
 * ring. Requests of a batch are issued in their order, so they take effect in it; one wait comes at its end, and one in front of a request for
 * another GPU.
 *
 * Atomics: one thread carries out all of them that NICs do on a GPU's memory, so reading, computing and writing are exact against each
 * other. Up to MAX_RUN in a row are read together and written together; those on one word apply in their order. They are not exact against
 * atomics of the program's own kernels.
 *
 * The wait polls the stream. A blocking call would sleep in the driver, or spin for as long as it takes.
 */
#include "libclient/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RUN 64u /* atomics in a row */

/* ---- streams and registrations --------------------------------------------------------------------------------------- */

static cuda_result make_stream(const struct cuda_api *cuda, cuda_stream *ret_stream)
{
	int least, greatest;

	if (cuda->stream_create_priority && cuda->priority_range && cuda->priority_range(&least, &greatest) == CUDA_OK)
		return cuda->stream_create_priority(ret_stream, CUDA_STREAM_NON_BLOCKING, greatest);
	return cuda->stream_create(ret_stream, CUDA_STREAM_NON_BLOCKING);
}

int agent_gpu_new(struct shmd_gpu *gpu, struct agent_gpu **ret_gpu)
{
	_cleanup_free_ struct agent_gpu *agent_gpu = calloc(1, sizeof(*agent_gpu));
	int r;

	if (!agent_gpu)
		return text_fail(-ENOMEM, "no memory for a memory agent");
	r = gpu_enter(gpu);
	if (!r)
		r = gpu_finish(gpu, make_stream(gpu->cuda, &agent_gpu->stream), "make a stream");
	if (r < 0)
		return r;
	list_init(&agent_gpu->link);
	agent_gpu->lacks_values = !gpu->cuda->stream_write4 || !gpu->cuda->stream_write8;
	agent_gpu->gpu = gpu;
	gpu->n_refs++;
	*ret_gpu = take_ptr(agent_gpu);
	return 0;
}

void agent_gpu_free(struct agent_gpu *agent_gpu)
{
	struct shmd_gpu *gpu = agent_gpu->gpu;

	list_del(&agent_gpu->link);
	if (gpu_may_call_cuda(gpu->client) && !gpu_enter(gpu)) {
		(void)gpu->cuda->stream_destroy(agent_gpu->stream);
		gpu_leave(gpu);
	}
	gpu_unref(gpu);
	free(agent_gpu);
}

int agent_gpu_pin(struct shmd_gpu *gpu, void *addr, size_t bytes)
{
	cuda_result result;
	int r = gpu_enter(gpu);

	if (r < 0)
		return r;
	result = gpu->cuda->host_register(addr, bytes, CUDA_REGISTER_PORTABLE | CUDA_REGISTER_MAP);
	r = gpu_finish(gpu, result, "register the ring of the memory agent with the GPU");
	if (!r)
		gpu->n_refs++;
	return r;
}

void agent_gpu_unpin(struct shmd_gpu *gpu, void *addr)
{
	if (gpu_may_call_cuda(gpu->client) && !gpu_enter(gpu)) {
		(void)gpu->cuda->host_unregister(addr);
		gpu_leave(gpu);
	}
	gpu_unref(gpu);
}

/* ---- reads and writes ------------------------------------------------------------------------------------------------ */

/* A refusal at once is the fault of one request; any other error is the end of the context. */
static int judge(const struct agent_gpu *to, struct agent_op *op, cuda_result result)
{
	if (result == CUDA_OK)
		return 0;
	if (result != CUDA_INVALID_VALUE)
		return cuda_fail(to->gpu->cuda, result, "carry out a request of the NIC");
	op->status = -EFAULT;
	return 0;
}

/* CUDA_NOT_SUPPORTED: the word must be copied. */
static cuda_result write_word(struct agent_gpu *to, uint64_t addr, uint64_t bytes, uint64_t value)
{
	const struct cuda_api *cuda = to->gpu->cuda;
	cuda_result result = CUDA_NOT_SUPPORTED;

	if (to->lacks_values || addr % bytes)
		return result;
	result = bytes == 4 ? cuda->stream_write4(to->stream, addr, (uint32_t)value, 0) : cuda->stream_write8(to->stream, addr, value, 0);
	to->lacks_values = result == CUDA_NOT_SUPPORTED;
	return result;
}

/* Words lie in the ring as in memory: 4 bytes are not part of 8. */
static uint64_t load_word(const uint8_t *from, uint64_t bytes)
{
	uint32_t narrow;
	uint64_t wide;

	memcpy(&narrow, from, sizeof(narrow));
	if (bytes == 4)
		return narrow;
	memcpy(&wide, from, sizeof(wide));
	return wide;
}

static void store_word(uint8_t *to, uint64_t bytes, uint64_t value)
{
	uint32_t narrow = (uint32_t)value;

	if (bytes == 4)
		memcpy(to, &narrow, sizeof(narrow));
	else
		memcpy(to, &value, sizeof(value));
}

static int issue_write(struct agent_gpu *to, struct agent_op *op)
{
	cuda_result result = CUDA_NOT_SUPPORTED;

	if (op->bytes == 4 || op->bytes == 8)
		result = write_word(to, op->addr, op->bytes, load_word(op->payload, op->bytes));
	if (result == CUDA_NOT_SUPPORTED)
		result = to->gpu->cuda->copy_in(op->addr, op->payload, op->bytes, to->stream);
	return judge(to, op, result);
}

static int issue_read(struct agent_gpu *to, struct agent_op *op)
{
	return judge(to, op, to->gpu->cuda->copy_out(op->payload, op->addr, op->bytes, to->stream));
}

static int wait_stream(struct agent_gpu *to)
{
	const struct cuda_api *cuda = to->gpu->cuda;
	cuda_result result = cuda->stream_query(to->stream);

	for (uint32_t round = 0; result == CUDA_NOT_READY; result = cuda->stream_query(to->stream))
		shmd_dev_host_relax(round++);
	return result == CUDA_OK ? 0 : cuda_fail(cuda, result, "wait for requests of the NIC");
}

/* ---- atomics --------------------------------------------------------------------------------------------------------- */

/* Atomics in a row, on one GPU. */
struct run {
	struct agent_op *ops;
	unsigned int n;
	uint8_t first[MAX_RUN]; /* on the same word: it has read the word */
	uint8_t last[MAX_RUN]; /* valid for those that are first: it has the word's new value */
};

static bool overlap(const struct agent_op *a, const struct agent_op *b)
{
	return a->addr - b->addr < b->bytes || b->addr - a->addr < a->bytes;
}

/* False if it overlaps one of the run and is not on the same word: it must wait for that one's write. */
static bool run_take(struct run *run, const struct agent_gpu *to, const struct agent_op *op)
{
	unsigned int first = 0;

	if (run->n == MAX_RUN || op->status || op->gpu != to || !agent_op_is_atomic(op))
		return false;
	while (first < run->n && !overlap(&run->ops[first], op))
		first++;
	if (first < run->n && (run->ops[first].addr != op->addr || run->ops[first].bytes != op->bytes))
		return false;
	run->first[run->n] = (uint8_t)first;
	run->last[first] = (uint8_t)run->n++;
	return true;
}

static int run_read(struct run *run, struct agent_gpu *to)
{
	int r = 0;

	for (unsigned int i = 0; i < run->n && !r; i++)
		if (run->first[i] == i)
			r = issue_read(to, &run->ops[i]);
	return r ? r : wait_stream(to);
}

static void run_compute(struct run *run)
{
	for (unsigned int i = 0; i < run->n; i++) {
		struct agent_op *op = &run->ops[i], *first = &run->ops[run->first[i]];

		op->status = first->status;
		if (op->status)
			continue;
		/* Where the first one's old value was read, the value so far is kept. */
		op->old_value = op == first ? load_word(op->payload, op->bytes) : load_word(first->payload, op->bytes);
		op->new_value = agent_atomic_apply(op, op->old_value);
		store_word(first->payload, op->bytes, op->new_value);
	}
}

static int run_write(struct run *run, struct agent_gpu *to)
{
	cuda_result result;
	int r = 0;

	for (unsigned int i = 0; i < run->n && !r; i++) {
		struct agent_op *op = &run->ops[i];
		uint64_t value = run->ops[run->last[run->first[i]]].new_value;

		/* A word that keeps its value is not written: a compare-swap that failed changes nothing. */
		if (run->first[i] != i || op->status || value == op->old_value)
			continue;
		result = write_word(to, op->addr, op->bytes, value);
		if (result == CUDA_NOT_SUPPORTED)
			result = to->gpu->cuda->copy_in(op->addr, op->payload, op->bytes, to->stream);
		r = judge(to, op, result);
	}
	return r;
}

/* Atomics on a word that could not be written have not happened, whichever of them came first. */
static void run_judge(struct run *run)
{
	for (unsigned int i = 0; i < run->n; i++)
		if (!run->ops[i].status)
			run->ops[i].status = run->ops[run->first[i]].status;
}

/* The number of atomics at the front that it carried out, or a negative errno. */
static int issue_atomics(struct agent_gpu *to, struct agent_op *ops, unsigned int n)
{
	struct run run = {.ops = ops};
	int r;

	while (run.n < n && run_take(&run, to, &ops[run.n]))
		;
	r = run_read(&run, to);
	if (r < 0)
		return r;
	run_compute(&run);
	r = run_write(&run, to);
	run_judge(&run);
	return r < 0 ? r : (int)run.n;
}

/* ---- batches --------------------------------------------------------------------------------------------------------- */

/* Issues requests of one GPU from the front. Their number, or a negative errno. */
static int issue_some(struct agent_gpu *to, struct agent_op *ops, unsigned int n)
{
	unsigned int done = 0;

	while (done < n && (ops[done].status || ops[done].gpu == to)) {
		struct agent_op *op = &ops[done];
		int r = 1;

		if (!op->status && agent_op_is_atomic(op))
			r = issue_atomics(to, op, n - done);
		else if (!op->status)
			r = op->op == SHMD_AGENT_WRITE ? issue_write(to, op) : issue_read(to, op);
		if (r < 0)
			return r;
		done += r ? (unsigned int)r : 1;
	}
	return (int)done;
}

/* Nothing that it issued is under way when it returns, also after a failure. */
static int carry_out_some(struct agent_gpu *to, struct agent_op *ops, unsigned int n)
{
	char why[CLIENT_TEXT_BYTES];
	int r = gpu_enter(to->gpu), r2;

	if (r < 0)
		return r;
	r = issue_some(to, ops, n);
	if (r < 0)
		text_copy(why, sizeof(why), shmd_error_text());
	r2 = wait_stream(to);
	gpu_leave(to->gpu);
	if (r < 0)
		return text_fail(r, "%s", why);
	return r2 < 0 ? r2 : r;
}

int agent_gpu_carry_out(struct agent_op *ops, unsigned int n)
{
	unsigned int done = 0;

	while (done < n) {
		int r = ops[done].status ? 1 : carry_out_some(ops[done].gpu, ops + done, n - done);

		if (r < 0)
			return r;
		done += (unsigned int)r;
	}
	return 0;
}

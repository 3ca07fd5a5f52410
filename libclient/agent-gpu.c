/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying out a NIC's reads, writes and atomics on a GPU.
 *
 * Everything goes through one stream of the GPU's, which does not wait for other streams and has the highest priority, so it does not wait
 * for kernels of the program (agent-stream.c). Writes of one aligned word are memory operations of the stream, everything else are copies from
 * and to the ring. Requests of a batch are issued in their order, so they take effect in it; one wait comes at its end, and one in front of a request for
 * another GPU.
 *
 * Atomics: one thread carries out all of them that NICs do on a GPU's memory, so reading, computing and writing are exact against each
 * other. Up to MAX_RUN in a row are read together and written together; those on one word apply in their order. They are not exact against
 * atomics of the program's own kernels.
 */
#include "libclient/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RUN 64u /* atomics in a row */

/* ---- streams and registrations --------------------------------------------------------------------------------------- */

int agent_gpu_new(struct shmd_gpu *gpu, struct agent_gpu **ret_gpu)
{
	_cleanup_free_ struct agent_gpu *agent_gpu = calloc(1, sizeof(*agent_gpu));
	int r;

	if (!agent_gpu)
		return text_fail(-ENOMEM, "no memory for a memory agent");
	r = agent_stream_init(&agent_gpu->stream, gpu);
	if (r < 0) {
		agent_stream_deinit(&agent_gpu->stream);
		return r;
	}
	list_init(&agent_gpu->link);
	agent_gpu->gpu = gpu;
	gpu->n_refs++;
	*ret_gpu = take_ptr(agent_gpu);
	return 0;
}

void agent_gpu_free(struct agent_gpu *agent_gpu)
{
	struct shmd_gpu *gpu = agent_gpu->gpu;

	list_del(&agent_gpu->link);
	agent_stream_deinit(&agent_gpu->stream);
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
	if (op->bytes != 4 && op->bytes != 8)
		return agent_stream_copy_in(&to->stream, op);
	return agent_stream_write(&to->stream, op, load_word(op->payload, op->bytes));
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
			r = agent_stream_copy_out(&to->stream, &run->ops[i]);
	return r ? r : agent_stream_wait(&to->stream);
}

static void run_compute(struct run *run)
{
	for (unsigned int i = 0; i < run->n; i++) {
		struct agent_op *op = &run->ops[i], *first = &run->ops[run->first[i]];

		op->status = first->status;
		op->follows = first;
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
	int r = 0;

	for (unsigned int i = 0; i < run->n && !r; i++) {
		struct agent_op *op = &run->ops[i];
		uint64_t value = run->ops[run->last[run->first[i]]].new_value;

		/* A word that keeps its value is not written: a compare-swap that failed changes nothing. */
		if (run->first[i] == i && !op->status && value != op->old_value)
			r = agent_stream_write(&to->stream, op, value);
	}
	return r;
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
			r = op->op == SHMD_AGENT_WRITE ? issue_write(to, op) : agent_stream_copy_out(&to->stream, op);
		if (r < 0)
			return r;
		done += r ? (unsigned int)r : 1;
	}
	return (int)done;
}

/* Atomics on a word that could not be written have not happened, whichever of them came first. */
static void judge_followers(struct agent_op *ops, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (ops[i].follows && !ops[i].status)
			ops[i].status = ops[i].follows->status;
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
	r2 = agent_stream_wait(&to->stream);
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
	judge_followers(ops, n);
	return 0;
}

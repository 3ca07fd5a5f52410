/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvshmem-memory MINOR WAY: a PE of a job that makes memory of its own symmetric, creates queues by handles and writes to its log. test-nvshmem.py and
 * test-nvshmem-queues.py start it.
 */
#include <stdlib.h>

#include "tests/lib/fake-cuda.h"
#include "tests/nvshmem/device-queues.h"

#define STEP (UINT64_C(2) << 20)
#define HANDLE_DEFAULT 1

extern int cuMemCreate(unsigned long long *memory, size_t bytes, const void *attr, unsigned long long flags);
extern int cuMemRelease(unsigned long long memory);
extern int cuMemAddressReserve(uint64_t *addr, size_t bytes, size_t align, uint64_t wish, unsigned long long flags);
extern int cuMemAddressFree(uint64_t addr, size_t bytes);
extern int cuMemMap(uint64_t addr, size_t bytes, size_t offset, unsigned long long memory, unsigned long long flags);
extern int cuMemSetAccess(uint64_t addr, size_t bytes, const void *access, size_t n);
extern int cuMemUnmap(uint64_t addr, size_t bytes);
extern int cuMemAlloc_v2(uint64_t *addr, size_t bytes);
extern int cuMemFree_v2(uint64_t addr);

static int me, n, right, left;

static void begin(void)
{
	CHECK(device_library_init(0, NULL) == 0 && host.nvshmemid_init_status() == 2);
	me = host.nvshmem_my_pe();
	n = host.nvshmem_n_pes();
	right = (me + 1) % n;
	left = (me + n - 1) % n;
}

/* ---- memory, as a program makes it by the driver */

static char *make_memory(size_t bytes)
{
	const struct {
		int kind, handle_kinds, place_kind, gpu;
		void *unused;
		unsigned char flags[8];
	} attr = {1, 1, 1, 0, NULL, {0, 1}};
	const struct {
		int place_kind, gpu, flags;
	} access = {1, 0, 3};
	unsigned long long memory;
	uint64_t addr;

	CHECK(!cuMemCreate(&memory, bytes, &attr, 0) && !cuMemAddressReserve(&addr, bytes, STEP, 0, 0) && !cuMemMap(addr, bytes, 0, memory, 0));
	CHECK(!cuMemSetAccess(addr, bytes, &access, 1) && !cuMemRelease(memory));
	return (char *)(uintptr_t)addr;
}

static void drop_memory(char *memory, size_t bytes)
{
	CHECK(!cuMemUnmap((uintptr_t)memory, bytes) && !cuMemAddressFree((uintptr_t)memory, bytes));
}

static uint64_t offset_of(const void *symmetric)
{
	struct nvs_state state = device_library_state();

	CHECK((uintptr_t)symmetric >= state.heap_base && (uintptr_t)symmetric - state.heap_base < state.heap_size);
	return (uintptr_t)symmetric - state.heap_base;
}

/* The left PE's puts appear in the program's own mapping, and its stores there in the symmetric one. */
static void is_used(char *own, char *symmetric, int seed)
{
	struct nvs_state state = device_library_state();
	const uint64_t *bases = (const uint64_t *)(uintptr_t)state.peer_heap_base_p2p;
	char value = (char)(seed + me), *theirs;

	own[7] = (char)(seed + 50 + me);
	CHECK(symmetric[7] == own[7]);
	host.nvshmem_putmem(symmetric + STEP - 1, &value, 1, right);
	host.nvshmem_barrier_all();
	CHECK(own[STEP - 1] == (char)(seed + left));
	theirs = (char *)(uintptr_t)(bases[right] + offset_of(symmetric));
	CHECK(theirs == host.nvshmem_ptr(symmetric, right) && theirs[7] == (char)(seed + 50 + right));
	host.nvshmem_barrier_all();
}

/* Offsets are the same on all PEs. */
static void is_symmetric(void *symmetric)
{
	uint64_t *words = host.nvshmem_calloc(2, 8);

	words[0] = offset_of(symmetric);
	host.nvshmem_putmem(&words[1], &words[0], 8, right);
	host.nvshmem_barrier_all();
	CHECK(words[0] == words[1]);
	host.nvshmem_free(words);
}

static void registers_memory(void)
{
	char *own, *more, *symmetric, *again, *block;
	struct fake_cuda_counts counts;

	begin();
	own = make_memory(2 * STEP);
	more = make_memory(STEP);
	symmetric = host.nvshmemx_buffer_register_symmetric(own, 2 * STEP, 0);
	CHECK(symmetric && symmetric != own);
	is_symmetric(symmetric);
	is_used(own, symmetric, 1);
	/* The heap grows behind it. */
	block = host.nvshmem_malloc(UINT64_C(600) << 20);
	CHECK(block && offset_of(block) > offset_of(symmetric));
	again = host.nvshmemx_buffer_register_symmetric_at_preferred_address(more, STEP, more, 0);
	CHECK(again && offset_of(again) > offset_of(block));
	is_used(more, again, 10);
	is_used(own, symmetric, 20);
	CHECK(host.nvshmemx_buffer_unregister_symmetric(symmetric, 2 * STEP) == 0);
	own[7] = 5;
	/* The place of the first one serves for less, as often as wanted. */
	CHECK(host.nvshmemx_buffer_unregister_symmetric(again, STEP) == 0);
	for (int i = 0; i < 70; i++) {
		char *here = host.nvshmemx_buffer_register_symmetric(more, STEP, 0);

		CHECK(here == symmetric);
		if (i % 30 == 0)
			is_used(more, here, i);
		CHECK(host.nvshmemx_buffer_unregister_symmetric(here, STEP) == 0);
	}
	CHECK(host.nvshmemx_buffer_register_symmetric(own, 2 * STEP, 0) == symmetric);
	is_used(own, symmetric, 30);
	device_library_finalize();
	/* The end of the job leaves the program its memory. */
	own[7] = 6;
	drop_memory(own, 2 * STEP);
	drop_memory(more, STEP);
	counts = fake_cuda_counts();
	CHECK(counts.mapped + counts.memories + counts.reserved == 0);
}

/* Each is refused on all PEs, and leaves nothing. */
static void refuses_memory(void)
{
	char *own, *heap, page[64];
	uint64_t allocated;
	bool is_last;

	begin();
	is_last = me == n - 1;
	own = make_memory(2 * STEP);
	heap = host.nvshmem_align(STEP, STEP);
	CHECK(heap);
	CHECK(!host.nvshmemx_buffer_register_symmetric(is_last ? page : own, STEP, 0));
	CHECK(!host.nvshmemx_buffer_register_symmetric(is_last ? own + STEP : own, STEP, 0));
	CHECK(!host.nvshmemx_buffer_register_symmetric(own, is_last ? 2 * STEP : STEP, 0));
	CHECK(!host.nvshmemx_buffer_register_symmetric(own, is_last ? 100 : STEP, 0));
	CHECK(!host.nvshmemx_buffer_register_symmetric(own, 4 * STEP, 0));
	CHECK(!host.nvshmemx_buffer_register_symmetric(is_last ? heap : own, STEP, 0));
	CHECK(!cuMemAlloc_v2(&allocated, STEP) && !host.nvshmemx_buffer_register_symmetric((void *)(uintptr_t)allocated, STEP, 0) && !cuMemFree_v2(allocated));
	if (is_last)
		fake_cuda_fail("cuMemExportToShareableHandle", 1);
	CHECK(!host.nvshmemx_buffer_register_symmetric(own, STEP, 0));
	if (is_last)
		fake_cuda_fail("cuMemImportFromShareableHandle", 1);
	CHECK(!host.nvshmemx_buffer_register_symmetric(own, STEP, 0));
	CHECK(host.nvshmemx_buffer_unregister_symmetric(own, STEP) != 0 && host.nvshmemx_buffer_unregister_symmetric(heap, STEP) != 0);
	heap = host.nvshmemx_buffer_register_symmetric(own, STEP, 0);
	CHECK(heap);
	is_used(own, heap, 3);
	/* A copy of one PE is not complete, so it stays registered on all. */
	host.nvshmem_int_put_nbi((int *)(void *)heap + 16, (int *)(void *)heap, 4, right);
	if (is_last)
		fake_cuda_fail("cuStreamSynchronize", 1);
	CHECK(host.nvshmemx_buffer_unregister_symmetric(heap, STEP) != 0);
	is_used(own, heap, 4);
	CHECK(host.nvshmemx_buffer_unregister_symmetric(heap, STEP) == 0);
	device_library_finalize();
	drop_memory(own, 2 * STEP);
}

static void refuses_memory_by_queues(void)
{
	char *own;

	begin();
	own = make_memory(STEP);
	CHECK(!host.nvshmemx_buffer_register_symmetric(own, STEP, 0));
	device_library_finalize();
	drop_memory(own, STEP);
}

/* ---- queues */

struct words {
	uint64_t from, to, count;
};

/* By the queue of a handle: rows of the array are queues to all PEs. */
static void uses_handle(struct words *words, int32_t handle, uint64_t value)
{
	struct device_queues queues = device_queues_read();
	uint32_t row = (uint32_t)handle / (uint32_t)n;

	CHECK(handle % n == 0 && row >= queues.ibgda.num_default_rc_per_pe && row < queues.ibgda.num_rc_per_pe);
	words->from = value + (uint64_t)me;
	queue_put(&queues, row, &words->to, &words->from, 8, right);
	CHECK(queue_quiet(&queues, row, right) == 0);
	(void)queue_fetch_add8(&queues, row, &words->count, 1, right);
	host.nvshmem_barrier_all();
	CHECK(words->to == value + (uint64_t)left);
	host.nvshmem_barrier_all();
}

static void creates_queues(void)
{
	struct words *words;
	int32_t *first = NULL, *second = NULL, *none = NULL;
	uint32_t n_rc;

	begin();
	n_rc = device_queues_read().ibgda.num_rc_per_pe;
	words = host.nvshmem_calloc(1, sizeof(*words));
	CHECK(host.nvshmemx_qp_create(3, &first) == 0 && first);
	for (int i = 0; i < 3; i++) {
		CHECK(first[i] == ((int)n_rc + i) * n);
		uses_handle(words, first[i], 100 * (uint64_t)i);
	}
	CHECK(host.nvshmemx_qp_create(me ? 2 : 1, &none) == 1 && !none);
	CHECK(host.nvshmemx_qp_create(2, &second) == 0 && second[0] == ((int)n_rc + 3) * n && second[1] == second[0] + n);
	CHECK(host.nvshmemx_qp_create(60, &none) == 2 && !none);
	CHECK(host.nvshmemx_qp_create(0, &none) == 1 && !none);
	CHECK(host.nvshmemx_qp_create(2, NULL) == 1);
	for (int i = 0; i < 2; i++)
		uses_handle(words, second[i], 1000 * (uint64_t)i);
	uses_handle(words, first[1], 7);
	CHECK(words->count == 6 && device_queues_read().ibgda.num_default_rc_per_pe == n_rc && device_queues_read().ibgda.num_rc_per_pe == n_rc + 5);
	free(first);
	free(second);
	device_library_finalize();
	/* Another job begins without them. It may call 32 times. */
	begin();
	CHECK(device_queues_read().ibgda.num_rc_per_pe == n_rc);
	for (int i = 0; i < 32; i++) {
		CHECK(host.nvshmemx_qp_create(1, &first) == 0);
		free(first);
	}
	CHECK(host.nvshmemx_qp_create(1, &none) == 2 && !none);
	device_library_finalize();
}

static void creates_none(void)
{
	int32_t *handles = NULL;

	begin();
	CHECK(host.nvshmemx_qp_create(4, &handles) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(handles[i] == HANDLE_DEFAULT);
	free(handles);
	CHECK(host.nvshmemx_qp_create(-1, &handles) == 1);
	device_library_finalize();
}

/* ---- the log */

static void say(int level, unsigned long part)
{
	host.nvshmem_debug_log(level, part, "main.c", 7, "%s %d", level == 2 ? "WARN" : "INFO", (int)part);
}

static void writes_its_log(void)
{
	begin();
	say(2, 0);
	say(3, 0);
	*host.debug_level = 3;
	*host.debug_mask = 4;
	say(2, 1);
	say(3, 4);
	say(3, 8);
	say(9, 4);
	device_library_finalize();
}

int main(int argc, char **argv)
{
	const struct way ways[] = {{"buffers", registers_memory}, {"unlike", refuses_memory}, {"refused", refuses_memory_by_queues}, {"log", writes_its_log},
		{"handles", getenv("NVSHMEM_DISABLE_P2P") ? creates_queues : creates_none}};

	(void)argc;
	return device_library_main(argv, ways, sizeof(ways) / sizeof(ways[0]), NULL);
}

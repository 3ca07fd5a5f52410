/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvshmem-proxy MINOR WAY: a PE whose kernels ask a thread of the host, as NVIDIA's device code up to 3.4 does. test-nvshmem-queues.py starts it. The program
 * writes requests by itself; its numbers are those of the interface, not those of the library.
 *
 * channel: all requests. operation, value, atomic, pe, local: a request that the library refuses. exit: a kernel ends the job. half: a kernel ends in the
 * middle of a request, and another one ends the job. finish: finalize carries out whole requests. count: how many queues the user asked for, where there are none.
 */
#include <dirent.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libclient/compat/nvshmem/ibgda-layout.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/fake-kernels.h"
#include "tests/nvshmem/device-library.h"

#define RING (UINT64_C(1) << 22)
#define PUT 1
#define P 2
#define GET 4
#define FENCE 6
#define ATOMIC 7
#define NO_COMPARE 0

extern int cuMemAlloc_v2(uint64_t *addr, size_t bytes);
extern int cuMemHostRegister_v2(void *addr, size_t bytes, unsigned int flags);
extern int cuMemHostUnregister(void *addr);
extern int cuMemHostGetDevicePointer_v2(uint64_t *gpu, void *addr, unsigned int flags);

static int me, n, right, left;
static struct nvs_state state;

static void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static uint64_t load(uint64_t address)
{
	return __atomic_load_n((uint64_t *)at(address), __ATOMIC_ACQUIRE);
}

static void begin(void)
{
	fake_kernels_add();
	CHECK(device_library_init(0, NULL) == 0);
	me = host.nvshmem_my_pe();
	n = host.nvshmem_n_pes();
	right = (me + 1) % n;
	left = (me + n - 1) % n;
}

/* Kernels of bitcode: symbols, and none for queues. */
static void load_kernels(void)
{
	struct nvs_version version = {3, 4, 5};
	uint64_t address = 0;

	CHECK(!cuMemAlloc_v2(&address, 4096));
	memset(at(address), 0xee, 4096);
	memcpy(at(address + 2048), &version, sizeof(version));
	const struct fake_cuda_symbol symbols[] = {{"nvshmemi_device_lib_version_d", address + 2048, 12}, {"nvshmemi_device_state_d", address, 776}, {NULL, 0, 0}};

	CHECK(host.nvshmemx_cumodule_init(symbols) == 0 && *(uint8_t *)at(address + 776) == 0xee);
	memcpy(&state, at(address), 776);
}

/* ---- what device code does */

/* A kernel that ends between two words writes the first n_written of n_words. */
static void ask_in_part(const uint64_t *words, unsigned int n_words, unsigned int n_written)
{
	uint64_t index = __atomic_fetch_add((uint64_t *)at(state.proxy_channels_issue), n_words * 8, __ATOMIC_SEQ_CST);

	while (index + n_words * 8 - load(state.proxy_channels_complete) > state.proxy_channel_buf_size)
		usleep(10);
	for (unsigned int i = 0; i < n_written; i++, index += 8) {
		uint64_t flag = !(index >> state.proxy_channel_buf_logsize & 1);

		__atomic_store_n((uint64_t *)at(state.proxy_channels_buf + index % RING), (words[i] & ~UINT64_C(0xff)) | flag, __ATOMIC_RELEASE);
	}
}

static void ask(const uint64_t *words, unsigned int n_words)
{
	ask_in_part(words, n_words, n_words);
}

static uint64_t first_word(const void *symmetric, uint64_t op)
{
	return ((uint64_t)(uintptr_t)symmetric - state.heap_base) << 24 | op << 16;
}

static void move(uint64_t op, const void *symmetric, const void *local, uint64_t bytes, int pe)
{
	uint64_t address = (uint64_t)(uintptr_t)local;

	ask((uint64_t[]){first_word(symmetric, op), address, bytes << 16 | (address & 0xff) << 8, (uint64_t)pe << 16}, 4);
}

static void p(const void *symmetric, uint64_t value, uint64_t bytes, int pe)
{
	ask((uint64_t[]){first_word(symmetric, P), value << 32 | (uint64_t)pe << 16, value >> 32 << 32 | bytes << 16}, 3);
}

static void quiet(void)
{
	uint64_t issue = load(state.proxy_channels_issue);

	__atomic_store_n((uint64_t *)at(state.proxy_channels_quiet_issue), issue, __ATOMIC_SEQ_CST);
	while (load(state.proxy_channels_quiet_ack) < issue)
		usleep(10);
}

/* Returns the former value, if the atomic has one. */
static uint64_t atomic(const void *symmetric, uint64_t kind, uint64_t bytes, uint64_t value, uint64_t compare, int pe)
{
	uint64_t count = __atomic_fetch_add((uint64_t *)at(state.proxy_channel_g_buf_head_ptr), 1, __ATOMIC_SEQ_CST);
	uint64_t place = state.proxy_channel_g_buf + count % state.proxy_channel_g_buf_size * 16;

	ask((uint64_t[]){first_word(symmetric, ATOMIC), value << 32 | (uint64_t)pe << 16 | kind << 8, value >> 32 << 32 | bytes << 16 | (compare & 0xff) << 8, compare, count << 8}, 5);
	quiet();
	return load(place);
}

/* ---- checks */

static void reads_the_state(void)
{
	const uint64_t *mapped = at(state.peer_heap_base_p2p);

	CHECK(state.proxy == 2 && state.job_connectivity == 8 && !state.ibgda_is_initialized && state.atomics_complete_on_quiet && state.proxy_ops_are_ordered);
	CHECK(mapped[me] == state.heap_base && !mapped[right]);
	CHECK(state.global_exit_request_state && state.global_exit_code && *(int32_t *)at(state.global_exit_request_state) == 0);
	CHECK(state.proxy_channel_g_buf_size == UINT64_C(1) << state.proxy_channel_g_buf_log_size && state.proxy_channel_buf_size == RING);
	/* Device libraries of the same job have queues. */
	CHECK(device_library_state().proxy == 1 && device_library_state().ibgda_is_initialized && !device_library_state().proxy_channels_buf);
}

struct memory {
	uint64_t words[16];
	uint8_t from[100000], to[100000], back[100000];
};

static void moves(struct memory *m)
{
	for (size_t i = 0; i < sizeof(m->from); i++)
		m->from[i] = (uint8_t)(i * 7 + (i >> 12) + (size_t)me);
	host.nvshmem_barrier_all();
	move(PUT, m->to + 3, m->from + 1, 99000, right);
	move(GET, m->from + 77, m->back + 5, 1000, right);
	p(&m->words[1], 0x1122334455667788u + (uint64_t)me, 8, right);
	p(&m->words[2], 0x99aabbccu, 2, right);
	quiet();
	for (size_t i = 0; i < 1000; i++)
		CHECK(m->back[5 + i] == (uint8_t)((77 + i) * 7 + ((77 + i) >> 12) + (size_t)right));
	host.nvshmem_barrier_all();
	for (size_t i = 0; i < 99000; i++)
		CHECK(m->to[3 + i] == (uint8_t)((1 + i) * 7 + ((1 + i) >> 12) + (size_t)left));
	CHECK(m->to[2] == 0 && m->to[99003] == 0);
	CHECK(m->words[1] == 0x1122334455667788u + (uint64_t)left && m->words[2] == 0xbbcc);
}

/* The CPU copies host memory that CUDA knows; kernels name it by the GPU's address. */
static void moves_host_memory(struct memory *m)
{
	uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t on_gpu = 0;

	CHECK(pages != MAP_FAILED && !cuMemHostRegister_v2(pages, 8192, 3) && !cuMemHostGetDevicePointer_v2(&on_gpu, pages, 0));
	memset(pages, 0x40 + me, 5000);
	host.nvshmem_barrier_all();
	move(PUT, m->to, at(on_gpu), 5000, right);
	move(PUT, m->to, (uint8_t *)at(on_gpu) + 8192, 0, right);
	quiet();
	host.nvshmem_barrier_all();
	CHECK(m->to[0] == 0x40 + left && m->to[4999] == 0x40 + left);
	move(GET, m->to, at(on_gpu + 5000), 3192, right);
	quiet();
	CHECK(pages[5000] == 0x40 + me && pages[8191] == 0x40 + me);
	CHECK(!cuMemHostUnregister(pages) && !munmap(pages, 8192));
	host.nvshmem_barrier_all();
}

static void atomics(struct memory *m)
{
	uint64_t *mine = &m->words[4];
	int32_t *narrow = (int32_t *)(void *)&m->words[5];

	/* All on PE 0, without former values, among atomics of the host; then each on its neighbour's. */
	for (int i = 0; i < 10; i++) {
		(void)atomic(&m->words[3], 4, 8, 5, NO_COMPARE, 0);
		host.nvshmem_uint64_atomic_inc(&m->words[3], 0);
	}
	(void)atomic(&m->words[3], 2, 8, 99, NO_COMPARE, 0);
	host.nvshmem_barrier_all();
	CHECK(me || m->words[3] == 61u * (uint64_t)n);
	(void)atomic(mine, 3, 8, 0xff00ff00ff00ff00, NO_COMPARE, right);
	CHECK(atomic(mine, 12, 8, 0, NO_COMPARE, right) == 0xff00ff00ff00ff00);
	CHECK(atomic(mine, 15, 8, 0xffff0000ffff0000, NO_COMPARE, right) == 0xff00ff00ff00ff00);
	CHECK(atomic(mine, 16, 8, 0x1, NO_COMPARE, right) == 0xff000000ff000000);
	CHECK(atomic(mine, 17, 8, 0x3, NO_COMPARE, right) == 0xff000000ff000001);
	CHECK(atomic(mine, 18, 8, 0x123456789, NO_COMPARE, right) == 0xff000000ff000002);
	CHECK(atomic(mine, 19, 8, 7, 0x123456788, right) == 0x123456789);
	CHECK(atomic(mine, 19, 8, 40, 0x123456789, right) == 0x123456789);
	CHECK(atomic(mine, 13, 8, 0, NO_COMPARE, right) == 40 && atomic(mine, 14, 8, 9, NO_COMPARE, right) == 41);
	(void)atomic(mine, 5, 8, 0x32, NO_COMPARE, right);
	(void)atomic(mine, 6, 8, 0x5, NO_COMPARE, right);
	(void)atomic(mine, 7, 8, 0x1, NO_COMPARE, right);
	CHECK(atomic(&narrow[1], 14, 4, (uint32_t)-3, NO_COMPARE, right) == 0 && (int32_t)atomic(&narrow[1], 12, 4, 0, NO_COMPARE, right) == -3);
	host.nvshmem_barrier_all();
	CHECK(*mine == 0x36 && narrow[0] == 0 && narrow[1] == -3);
}

/* A signal arrives after its data, without a quiet in between. */
static void signals(struct memory *m)
{
	uint64_t *signal = &m->words[8];

	host.nvshmem_barrier_all();
	for (uint64_t round = 1; round <= 20; round++) {
		memset(m->from, (int)round + me, 5000);
		move(PUT, m->to, m->from, 5000, right);
		ask((uint64_t[]){first_word(signal, ATOMIC), UINT64_C(1) << 32 | (uint64_t)right << 16 | 10 << 8, 8 << 16, 0, 0}, 5);
		while (__atomic_load_n(signal, __ATOMIC_ACQUIRE) < round)
			usleep(50);
		CHECK(m->to[0] == (uint8_t)(round + (uint64_t)left) && m->to[4999] == (uint8_t)(round + (uint64_t)left));
		quiet();
		host.nvshmem_barrier_all();
	}
	ask((uint64_t[]){first_word(signal, ATOMIC), UINT64_C(77) << 32 | (uint64_t)right << 16 | 9 << 8, 8 << 16, 0, 0}, 5);
	quiet();
	host.nvshmem_barrier_all();
	CHECK(*signal == 77);
}

/* The ring turns twice, and requests lie across its end. All PEs write the same requests, so they count alike. */
static void turns(struct memory *m)
{
	uint64_t last = 0;

	for (uint64_t i = 0; i < 2 * RING / 8; i++) {
		uint64_t issue = load(state.proxy_channels_issue) % RING;

		if (issue == RING - 8) {
			last = i;
			p(&m->words[9], last << 8 | (uint64_t)me, 8, right);
			i += 3;
		}
		ask((uint64_t[]){first_word(m, FENCE)}, 1);
	}
	quiet();
	CHECK(load(state.proxy_channels_complete) == load(state.proxy_channels_issue));
	host.nvshmem_barrier_all();
	CHECK(last && m->words[9] == (last << 8 | (uint64_t)left));
}

static void channel(void)
{
	struct memory *m;

	begin();
	m = host.nvshmem_calloc(1, sizeof(*m));
	CHECK(m);
	load_kernels();
	reads_the_state();
	moves(m);
	moves_host_memory(m);
	atomics(m);
	signals(m);
	turns(m);
	device_library_finalize();
	CHECK(fake_cuda_counts().mapped + fake_cuda_counts().memories + fake_cuda_counts().reserved + fake_cuda_counts().streams == 0);
}

/* ---- requests that the library refuses; it ends the job */

/* PE 0 asks by `ask_wrongly`, and the quiet does not end. */
static void wrong(void (*ask_wrongly)(void *symmetric))
{
	void *memory;

	begin();
	memory = host.nvshmem_calloc(1, 4096);
	load_kernels();
	if (!me) {
		ask_wrongly(memory);
		quiet();
		fprintf(stderr, "the request was carried out\n");
		_exit(3);
	}
	for (;;)
		pause();
}

static void ask_operation(void *symmetric)
{
	ask((uint64_t[]){first_word(symmetric, 9)}, 1);
}

static void wrong_operation(void)
{
	wrong(ask_operation);
}

/* The longest value has 8 bytes. */
static void ask_value(void *symmetric)
{
	p(symmetric, 1, 9, right);
}

static void wrong_value(void)
{
	wrong(ask_value);
}

/* Between those that bring a former value and those that do not. */
static void ask_atomic(void *symmetric)
{
	(void)atomic(symmetric, 11, 8, 1, NO_COMPARE, right);
}

static void wrong_atomic(void)
{
	wrong(ask_atomic);
}

static void ask_pe(void *symmetric)
{
	move(PUT, symmetric, symmetric, 8, n);
}

static void wrong_pe(void)
{
	wrong(ask_pe);
}

static void ask_local(void *symmetric)
{
	uint64_t address = 0;

	/* Buffers are those of queues. */
	CHECK(!cuMemAlloc_v2(&address, 4096) && host.nvshmemx_buffer_register(at(address), 4096) == 0);
	move(GET, symmetric, at(address), 8, right);
}

static void wrong_local(void)
{
	wrong(ask_local);
}

/* ---- ends */

static void request_exit(int code)
{
	int32_t *request = at(state.global_exit_request_state), none = 0;

	CHECK(__atomic_compare_exchange_n(request, &none, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	*(volatile int32_t *)at(state.global_exit_code) = code;
	__atomic_store_n(request, 2, __ATOMIC_RELEASE);
}

static void ends_the_job(void)
{
	begin();
	state = device_library_state();
	CHECK(state.proxy == 1 && state.global_exit_request_state && state.global_exit_code);
	host.nvshmem_barrier_all();
	if (!me)
		request_exit(37);
	for (;;)
		pause();
}

/* A line of a file of the library's thread, behind `key`. */
static bool read_of_thread(const char *thread, const char *file, const char *key, char *ret_text, size_t bytes)
{
	char path[320], line[256];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/%s", thread, file);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, key, strlen(key));
	if (found)
		snprintf(ret_text, bytes, "%s", line + strlen(key));
	if (f)
		fclose(f);
	return found;
}

/* How often the thread of the host has slept. */
static unsigned long sleeps(void)
{
	DIR *threads = opendir("/proc/self/task");
	const struct dirent *thread;
	char text[256];
	unsigned long n_sleeps = 0;

	while (threads && (thread = readdir(threads)))
		if (read_of_thread(thread->d_name, "comm", "nvs-proxy", text, sizeof(text)) &&
		    read_of_thread(thread->d_name, "status", "voluntary_ctxt_switches:", text, sizeof(text)))
			n_sleeps = strtoul(text, NULL, 10);
	if (threads)
		closedir(threads);
	return n_sleeps;
}

/* The thread sleeps though words of a request are missing, and hears of the end. */
static void half(void)
{
	unsigned long n_before;
	void *memory;

	begin();
	memory = host.nvshmem_calloc(1, 4096);
	load_kernels();
	host.nvshmem_barrier_all();
	if (!me) {
		ask_in_part((uint64_t[]){first_word(memory, PUT), 0, 0, 0}, 4, 2);
		n_before = sleeps();
		CHECK(n_before);
		for (int i = 0; i < 2000 && sleeps() < n_before + 10; i++)
			usleep(10000);
		CHECK(sleeps() >= n_before + 10);
		request_exit(38);
	}
	for (;;)
		pause();
}

#define N_GETS 2000u

/* Gets into host memory, which is there when the job has ended. A request whose words are missing is not waited for. */
static void finish(void)
{
	size_t bytes = N_GETS * sizeof(uint64_t);
	uint64_t *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *value, on_gpu = 0;

	CHECK(all != MAP_FAILED);
	begin();
	value = host.nvshmem_calloc(1, sizeof(*value));
	CHECK(!cuMemHostRegister_v2(all, bytes, 3) && !cuMemHostGetDevicePointer_v2(&on_gpu, all, 0));
	load_kernels();
	*value = 1000u + (uint64_t)me;
	host.nvshmem_barrier_all();
	if (!me) {
		for (uint64_t i = 0; i < N_GETS; i++)
			move(GET, value, at(on_gpu + i * 8), 8, right);
		ask_in_part((uint64_t[]){first_word(value, PUT), 0, 0, 0}, 4, 3);
		move(GET, value, all, 8, right);
	}
	device_library_finalize();
	for (uint64_t i = 0; i < N_GETS; i++)
		CHECK(all[i] == (me ? 0 : 1000u + (uint64_t)right));
	printf("finalize has carried out all requests\n");
}

/* Kernels of a job without queues find the number that the user asked for, and nothing else has changed. */
static void tells_the_count(void)
{
	struct nvs_ibgda_state before, now;

	memcpy(&before, device_library.transport, sizeof(before));
	begin();
	memcpy(&now, device_library.transport, sizeof(now));
	CHECK(device_library_state().job_connectivity == 1 && now.num_rc_per_pe == 24);
	before.num_rc_per_pe = 24;
	CHECK(!memcmp(&before, &now, sizeof(now)));
	device_library_finalize();
}

int main(int argc, char **argv)
{
	static const struct way ways[] = {{"channel", channel}, {"exit", ends_the_job}, {"half", half}, {"finish", finish}, {"count", tells_the_count},
				    {"operation", wrong_operation}, {"value", wrong_value}, {"atomic", wrong_atomic}, {"pe", wrong_pe}, {"local", wrong_local}};

	(void)argc;
	return device_library_main(argv, ways, sizeof(ways) / sizeof(ways[0]), NULL);
}

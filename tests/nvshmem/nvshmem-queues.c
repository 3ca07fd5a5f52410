/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvshmem-queues MINOR WAY: a PE of a job whose PEs do not map each other, with the device library of NVSHMEM 3.MINOR. test-nvshmem-queues.py starts
 * it. It does by itself what kernels do, posting to queues included (device-queues.h).
 */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/fake-cuda.h"
#include "tests/nvshmem/device-queues.h"

#define BIG (3u << 20)
#define GROWN (UINT64_C(600) << 20)

extern int cuMemAlloc_v2(uint64_t *addr, size_t bytes);
extern int cuMemFree_v2(uint64_t addr);

static int me, n, right, left;
static uint32_t n_rc;

static void begin(void)
{
	const char *text = getenv("NVSHMEM_IBGDA_NUM_RC_PER_PE");

	CHECK(device_library_init(0, NULL) == 0 && host.nvshmemid_init_status() == 2);
	me = host.nvshmem_my_pe();
	n = host.nvshmem_n_pes();
	right = (me + 1) % n;
	left = (me + n - 1) % n;
	n_rc = text ? (uint32_t)atoi(text) : 1;
}

/* The word grows to a value that another PE brings. */
static void wait_until(const uint64_t *word, uint64_t value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
		usleep(100);
	CHECK(*word == value);
}

static void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static void reads_the_states(void)
{
	struct device_queues queues = device_queues_read();
	const struct nvs_ibgda_state *ibgda = &queues.ibgda;
	const uint64_t *mapped = at(queues.state.peer_heap_base_p2p);
	const struct nvs_team *world = at(((uint64_t *)at(queues.state.team_pool))[NVS_TEAM_WORLD]);

	CHECK(queues.state.job_connectivity == 8 && queues.state.ibgda_is_initialized && queues.state.selected_device_transport == 1);
	CHECK(device_library.selected == 1 && queues.state.is_initialized);
	for (int pe = 0; pe < n; pe++)
		CHECK(mapped[pe] == (pe == me ? queues.state.heap_base : 0) && ((uint64_t *)at(queues.state.peer_heap_base_remote))[pe]);
	CHECK(((uint64_t *)at(queues.state.peer_heap_base_remote))[me] == queues.state.heap_base);
	CHECK(!world->are_gpus_p2p_connected && world->size == n);
	CHECK(ibgda->num_rc_per_pe == n_rc && ibgda->num_devices_initialized == 1 && ibgda->may_skip_cst && !ibgda->nic_buf_on_gpumem);
	CHECK(ibgda->num_default_rc_per_pe == (device_library.version.minor <= 4 ? 0 : n_rc));
	for (uint32_t i = 0; i < (n_rc > 2 ? n_rc : 2); i++)
		CHECK(!((uint8_t *)at(ibgda->qp_group_switches))[i]);
	/* The places of this PE are idle, for any kernel that looks. */
	for (uint32_t i = 0; i < n_rc * (uint32_t)n; i++) {
		const struct nvs_ibgda_qp *qp = (const struct nvs_ibgda_qp *)at(ibgda->rcs) + i;
		const struct nvs_ibgda_cq *cq = at(qp->tx_wq.cq);

		CHECK(qp->qp_type == NVS_IBGDA_QP_RC && at(cq->cons_idx) == &qp->mvars.cons_idx && !qp->mvars.ready_head);
	}
	for (uint32_t i = 0; i < n_rc; i++)
		CHECK(queue_to(&queues, right, i)->qp_type == NVS_IBGDA_QP_RC && queue_to(&queues, right, i)->ibuf.nslots == NVS_IBGDA_SLOTS);
}

struct memory {
	uint64_t words[16];
	uint8_t from[BIG], to[BIG], back[BIG];
};

static void fill(struct memory *m, int seed)
{
	for (size_t i = 0; i < BIG; i++)
		m->from[i] = (uint8_t)(i * 7 + (i >> 12) + (size_t)(seed + me));
}

static void check_from(const uint8_t *bytes, size_t size, int seed)
{
	for (size_t i = 0; i < size; i++)
		CHECK(bytes[i] == (uint8_t)(i * 7 + (i >> 12) + (size_t)seed));
}

/* All sizes of requests, over the end of a ring of 128 some times, on each queue; also to this PE. */
static void moves_data(struct memory *m)
{
	struct device_queues queues = device_queues_read();
	uint64_t value = 77 + (uint64_t)me;

	fill(m, 1);
	host.nvshmem_barrier_all();
	for (uint32_t i = 0; i < n_rc; i++) {
		queue_put(&queues, i, m->to, m->from, BIG, right);
		CHECK(queue_quiet(&queues, i, right) == 0);
		host.nvshmem_barrier_all();
		check_from(m->to, BIG, 1 + left);
		queue_get(&queues, i, m->back, m->from, BIG, right);
		CHECK(queue_quiet(&queues, i, right) == 0);
		check_from(m->back, BIG, 1 + right);
		memset(m->to, 0, BIG);
		host.nvshmem_barrier_all();
	}
	queue_p(&queues, 0, &m->words[1], &value, 8, right);
	CHECK(queue_quiet(&queues, 0, right) == 0);
	for (int i = 0; i < 300; i++)
		queue_put(&queues, 0, m->to + i, m->from, 1, me);
	CHECK(queue_quiet(&queues, 0, me) == 0);
	CHECK(m->to[299] == m->from[0] && m->to[300] == 0);
	host.nvshmem_barrier_all();
	CHECK(m->words[1] == 77 + (uint64_t)left);
}

static void counts(struct memory *m)
{
	struct device_queues queues = device_queues_read();
	uint32_t *half = (uint32_t *)(void *)&m->words[3];
	uint64_t sum = 0;

	for (int i = 0; i < 200; i++)
		sum += queue_fetch_add8(&queues, (uint32_t)i % n_rc, &m->words[2], 1, 0);
	CHECK(sum >= 199 * 100);
	queue_add8(&queues, 0, &m->words[2], 1000, me);
	queue_add8(&queues, 0, &m->words[2], 1000, right);
	CHECK(queue_quiet(&queues, 0, me) == 0 && queue_quiet(&queues, 0, right) == 0);
	CHECK(queue_fetch_add4(&queues, 0, half + 1, (uint32_t)me + 1, right) == 0);
	host.nvshmem_barrier_all();
	CHECK(m->words[2] == (me ? 2000u : 2000 + 200 * (uint64_t)n));
	CHECK(half[0] == 0 && half[1] == (uint32_t)left + 1);
	host.nvshmem_barrier_all();
	CHECK(queue_swap8(&queues, 0, &m->words[2], 5, right) == (right ? 2000u : 2000 + 200 * (uint64_t)n));
	host.nvshmem_barrier_all();
	CHECK(m->words[2] == 5);
}

static void signals(struct memory *m)
{
	struct device_queues queues = device_queues_read();

	for (int round = 1; round <= 20; round++) {
		fill(m, round);
		queue_put_signal(&queues, (uint32_t)round % n_rc, m->to, m->from, 5000, &m->words[5], 1, right);
		wait_until(&m->words[5], (uint64_t)round);
		check_from(m->to, 5000, round + left);
		CHECK(queue_quiet(&queues, (uint32_t)round % n_rc, right) == 0);
		host.nvshmem_barrier_all();
	}
}

static uint64_t piece_of(const struct device_queues *queues, const uint8_t *memory)
{
	return ((uint64_t)(uintptr_t)memory - queues->state.heap_base) >> queues->ibgda.log2_cumem_granularity;
}

/* The state has the keys of what is new: of a piece that had memory before, and of the one behind it. The former key of the first piece serves on. */
static void follows_the_heap(struct memory *m)
{
	struct device_queues before = device_queues_read(), queues;
	uint8_t *more = host.nvshmem_malloc(GROWN), *end = more + GROWN - 4096;

	CHECK(more);
	queues = device_queues_read();
	CHECK(queues.ibgda.rkeys_table == before.ibgda.rkeys_table && queues.ibgda.rcs == before.ibgda.rcs);
	CHECK(piece_of(&queues, more) == 0 && piece_of(&queues, end) == 1 && queues.ibgda.lkeys[0].key_be != before.ibgda.lkeys[0].key_be);
	memset(end, me + 1, 64);
	memset(end + 64, 0, 64);
	memset(more + BIG, me + 1, 64);
	memset(more + BIG + 64, 0, 64);
	fill(m, 30);
	host.nvshmem_barrier_all();
	queue_put(&queues, 0, end + 64, end, 64, right);
	queue_put(&queues, 0, more + BIG + 64, more + BIG, 64, right);
	queue_put(&before, 0, m->to, m->from, 5000, right);
	CHECK(queue_quiet(&queues, 0, right) == 0);
	host.nvshmem_barrier_all();
	CHECK(end[64] == left + 1 && end[127] == left + 1);
	CHECK(more[BIG + 64] == left + 1 && more[BIG + 127] == left + 1);
	check_from(m->to, 5000, 30 + left);
	host.nvshmem_free(more);
}

static void serves_the_host(struct memory *m)
{
	int values[4] = {me, me + 1, me + 2, me + 3}, back[4] = {0};
	int *ints = (int *)(void *)m->to;

	CHECK(!host.nvshmem_ptr(m, right) && host.nvshmem_ptr(m, me) == m);
	host.nvshmem_barrier_all();
	host.nvshmem_putmem(ints, values, sizeof(values), right);
	host.nvshmem_barrier_all();
	CHECK(ints[3] == left + 3);
	host.nvshmem_getmem(back, ints, sizeof(back), right);
	CHECK(back[3] == me + 3);
	host.nvshmem_double_p((double *)(void *)&m->words[8], 2.5 + me, right);
	host.nvshmem_short_iput((short *)(void *)&m->words[9], (short[]){1, 2, 3, 4, 5}, 3, 2, 2, right);
	host.nvshmem_quiet();
	host.nvshmem_barrier_all();
	CHECK(((short *)(void *)&m->words[9])[0] == 1 && ((short *)(void *)&m->words[9])[3] == 3);
	host.nvshmem_iget32(back, ints, 2, 1, 2, right);
	CHECK(back[0] == me && back[2] == me + 1);
	CHECK(*(double *)(void *)&m->words[8] == 2.5 + left && host.nvshmem_double_g((double *)(void *)&m->words[8], right) == 2.5 + me);
	/* The next step changes these. */
	host.nvshmem_barrier_all();
}

/* Memory of this PE alone. */
static void uses_registered_buffers(struct memory *m)
{
	uint64_t addresses[3] = {0};
	struct device_queues queues;

	for (int i = 0; i < 3; i++) {
		CHECK(!cuMemAlloc_v2(&addresses[i], 8192));
		memset(at(addresses[i]), 10 * i + me, 8192);
		CHECK(host.nvshmemx_buffer_register(at(addresses[i]), 8192) == 0);
	}
	memset(m->to, 0, 8192);
	host.nvshmem_barrier_all();
	CHECK(host.nvshmemx_buffer_unregister(at(addresses[1])) == 0 && host.nvshmemx_buffer_unregister(at(addresses[1])) == 1);
	queues = device_queues_read();
	queue_put(&queues, 0, m->to, at(addresses[0] + 100), 50, right);
	queue_put(&queues, 0, m->to + 50, at(addresses[2] + 8100), 92, right);
	CHECK(queue_quiet(&queues, 0, right) == 0);
	host.nvshmem_barrier_all();
	CHECK(m->to[0] == left && m->to[49] == left && m->to[50] == 20 + left && m->to[141] == 20 + left && m->to[142] == 0);
	host.nvshmemx_buffer_unregister_all();
	CHECK(!device_queues_read().ibgda.local_only_mhandle_head);
	/* One that the end of the job takes with it. */
	CHECK(host.nvshmemx_buffer_register(at(addresses[1]), 8192) == 0);
}

/* A call that fails has changed nothing. */
static void registers_all_or_nothing(struct memory *m)
{
	uint64_t address = 0;
	struct device_queues queues;

	CHECK(!cuMemAlloc_v2(&address, 8192));
	memset(at(address), me, 8192);
	host.nvshmem_barrier_all();
	/* The second write is that of the state. */
	fake_cuda_fail_after("cuMemcpyHtoDAsync_v2", 2, 1, 1);
	CHECK(host.nvshmemx_buffer_register(at(address), 8192) != 0 && fake_cuda_failed());
	CHECK(host.nvshmemx_buffer_unregister(at(address)) == 1 && !device_queues_read().ibgda.local_only_mhandle_head);
	CHECK(host.nvshmemx_buffer_register(at(address), 8192) == 0);
	fake_cuda_fail_after("cuMemcpyHtoDAsync_v2", 2, 0, 1);
	CHECK(host.nvshmemx_buffer_unregister(at(address)) != 0 && fake_cuda_failed());
	host.nvshmem_barrier_all();
	queues = device_queues_read();
	queue_put(&queues, 0, m->to, at(address), 50, right);
	CHECK(queue_quiet(&queues, 0, right) == 0);
	host.nvshmem_barrier_all();
	CHECK(m->to[49] == left && host.nvshmemx_buffer_unregister(at(address)) == 0 && !device_queues_read().ibgda.local_only_mhandle_head);
}

/* The library does not know how kernels of 3.5 without queue code make requests, so it refuses them and leaves their state alone. */
static void refuses_kernels_without_queues(void)
{
	struct nvs_version version = {3, 5, 21};
	unsigned char *symbols;
	uint64_t address = 0;

	CHECK(!cuMemAlloc_v2(&address, 16384));
	symbols = at(address);
	memset(symbols, 0xee, 16384);
	memcpy(symbols + 2048, &version, sizeof(version));
	const struct fake_cuda_symbol with[] = {{"nvshmemi_device_lib_version_d", address + 2048, 12}, {"nvshmemi_device_state_d", address, 776},
						{"nvshmemi_ibgda_device_state_d", address + 4096, 8384}, {NULL, 0, 0}};
	const struct fake_cuda_symbol without[] = {with[0], with[1], {NULL, 0, 0}};

	CHECK(host.nvshmemx_cumodule_init(without) == 3 && symbols[0] == 0xee);
	CHECK(host.nvshmemx_cumodule_init(with) == 0 && symbols[776] == 0xee);
	CHECK(((struct nvs_ibgda_state *)(void *)(symbols + 4096))->num_rc_per_pe == n_rc && symbols[4096 + 8384] == 0xee);
	CHECK(host.nvshmemx_cumodule_finalize(with) == 0);
	/* The heap grows also when the program has unloaded kernels and has not said so. */
	CHECK(host.nvshmemx_cumodule_init(with) == 0 && !cuMemFree_v2(address));
}

static void does_all(void)
{
	struct memory *m;

	begin();
	reads_the_states();
	m = host.nvshmem_calloc(1, sizeof(*m));
	CHECK(m);
	moves_data(m);
	counts(m);
	signals(m);
	serves_the_host(m);
	registers_all_or_nothing(m);
	uses_registered_buffers(m);
	refuses_kernels_without_queues();
	follows_the_heap(m);
	device_library_finalize();
	/* A second job. */
	begin();
	reads_the_states();
	m = host.nvshmem_calloc(1, sizeof(*m));
	counts(m);
	device_library_finalize();
	CHECK(host.nvshmemid_init_status() == 0);
	CHECK(fake_cuda_counts().mapped + fake_cuda_counts().memories + fake_cuda_counts().reserved + fake_cuda_counts().streams == 0);
}

/* A request to memory that no key is for, and more behind it: device code that waits for the last one finds an error, and the job ends. */
static void a_queue_fails(void)
{
	struct device_queues queues;
	struct memory *m;

	begin();
	m = host.nvshmem_calloc(1, sizeof(*m));
	queues = device_queues_read();
	host.nvshmem_barrier_all();
	if (!me) {
		uint64_t nowhere[2] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
		struct device_queues wrong = queues;

		wrong.state.peer_heap_base_remote = (uint64_t)(uintptr_t)nowhere;
		queue_put(&wrong, 0, m->to, m->from, 100, 1);
		for (int i = 0; i < 10; i++)
			queue_put(&queues, 0, m->to, m->from, 100, 1);
		CHECK(queue_quiet(&queues, 0, 1) == -1);
		/* A later request ends, too. */
		queue_put(&queues, 0, m->to, m->from, 100, 1);
		CHECK(queue_quiet(&queues, 0, 1) == -1);
		/* The queue to this PE itself is another one. */
		queue_put(&queues, 0, m->to, m->from, 100, 0);
		CHECK(queue_quiet(&queues, 0, 0) == 0);
		puts("all waits have ended");
		fflush(stdout);
	}
	for (;;)
		pause();
}

static void a_pe_ends(void)
{
	struct device_queues queues;
	struct memory *m;

	begin();
	m = host.nvshmem_calloc(1, sizeof(*m));
	queues = device_queues_read();
	queue_put(&queues, 0, m->to, m->from, 100, right);
	CHECK(queue_quiet(&queues, 0, right) == 0);
	host.nvshmem_barrier_all();
	if (me)
		raise(SIGKILL);
	for (uint32_t i = 0; i < n_rc; i++)
		while (queue_quiet(&queues, i, 1) == 0)
			queue_put(&queues, i, m->to, m->from, 100, 1);
	/* Kernels with assertions end meanwhile, however many queues have failed. */
	usleep(100000);
	puts("all waits have ended");
	fflush(stdout);
	for (;;)
		pause();
}

static pid_t find_daemon(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred daemon = {0};
	socklen_t bytes = sizeof(daemon);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", getenv("SHMEMD_SOCKET"));
	CHECK(sock >= 0 && !connect(sock, (const struct sockaddr *)&address, sizeof(address)));
	CHECK(!getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &daemon, &bytes) && daemon.pid > 1);
	close(sock);
	return daemon.pid;
}

/* Then nobody carries out what kernels post. */
static void the_daemon_ends(void)
{
	struct device_queues queues;
	struct memory *m;

	begin();
	m = host.nvshmem_calloc(1, sizeof(*m));
	queues = device_queues_read();
	host.nvshmem_barrier_all();
	if (!me)
		CHECK(!kill(find_daemon(), SIGTERM));
	while (!me && queue_quiet(&queues, 0, 1) == 0)
		queue_put(&queues, 0, m->to, m->from, 100, 1);
	for (;;)
		pause();
}

/* DeepEP asks for that many. */
static void has_many(void)
{
	struct device_queues queues;
	struct memory *m;

	begin();
	reads_the_states();
	m = host.nvshmem_calloc(1, sizeof(*m));
	queues = device_queues_read();
	host.nvshmem_barrier_all();
	for (uint32_t i = 0; i < n_rc; i++)
		(void)queue_fetch_add8(&queues, i, &m->words[2], 1, right);
	host.nvshmem_barrier_all();
	CHECK(m->words[2] == n_rc);
	device_library_finalize();
}

/* The last write to the GPU of an allocation that makes the heap larger fails on one PE: that of the state, which has the first keys. */
static void an_allocation_fails(void)
{
	struct device_queues queues;
	uint8_t *more = NULL;
	uint64_t address;
	int last = 12;

	begin();
	for (int i = 12; i == 12 || more; i--) {
		last = i;
		if (me)
			fake_cuda_fail_after("cuMemcpyHtoDAsync_v2", 2, i, 1);
		more = host.nvshmem_malloc(BIG);
	}
	if (me)
		fake_cuda_fail_after("", 0, 0, 0);
	more = host.nvshmem_malloc(BIG);
	CHECK(more);
	queues = device_queues_read();
	CHECK(((uint64_t)(uintptr_t)(more + BIG) - queues.state.heap_base) >> queues.ibgda.log2_cumem_granularity < NVS_IBGDA_CONST_KEYS);
	memset(more, me + 1, 200);
	host.nvshmem_barrier_all();
	queue_put(&queues, 0, more + 300, more, 100, right);
	CHECK(queue_quiet(&queues, 0, right) == 0);
	host.nvshmem_barrier_all();
	CHECK(more[300] == left + 1 && more[399] == left + 1);
	/* Then that of the keys in GPU memory, on one PE. Memory that was there before has a key that serves, also in a state that is written anew. */
	CHECK(!cuMemAlloc_v2(&address, 4096));
	if (me)
		fake_cuda_fail_after("cuMemcpyHtoDAsync_v2", 2, last - 1, 1);
	CHECK(!host.nvshmem_malloc(BIG));
	if (me)
		fake_cuda_fail_after("", 0, 0, 0);
	CHECK(host.nvshmemx_buffer_register(at(address), 4096) == 0);
	queues = device_queues_read();
	host.nvshmem_barrier_all();
	queue_put(&queues, 0, more + 500, more, 100, right);
	CHECK(queue_quiet(&queues, 0, right) == 0);
	host.nvshmem_barrier_all();
	CHECK(more[599] == left + 1 && host.nvshmemx_buffer_unregister(at(address)) == 0 && host.nvshmem_malloc(BIG));
	device_library_finalize();
}

/* A PE with a wrong number, then with another one: no PE has a job. */
static void differ(void)
{
	bool differs = !strcmp(getenv("SHMD_RANK"), "1");

	for (int i = 0; i < 2; i++) {
		if (differs)
			setenv("NVSHMEM_IBGDA_NUM_RC_PER_PE", i ? "2" : "none", 1);
		CHECK(device_library_init(0, NULL) != 0 && host.nvshmemid_init_status() == 0);
	}
	unsetenv("NVSHMEM_IBGDA_NUM_RC_PER_PE");
	begin();
	reads_the_states();
	device_library_finalize();
}

int main(int argc, char **argv)
{
	static const struct way ways[] = {{"all", does_all}, {"fails", a_queue_fails}, {"ends", a_pe_ends}, {"differ", differ}, {"daemon", the_daemon_ends}, {"many", has_many},
		{"allocation", an_allocation_fails}};

	(void)argc;
	return device_library_main(argv, ways, sizeof(ways) / sizeof(ways[0]), NULL);
}

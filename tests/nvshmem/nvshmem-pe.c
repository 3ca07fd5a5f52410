/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvshmem-pe MINOR WAY...: a PE of a job, with the device library of NVSHMEM 3.MINOR, as NVIDIA's headers and device library make it call the host
 * library. test-nvshmem.py starts it. It does by itself in GPU memory what kernels would, since that of the fake CUDA is the host's.
 */
#include <dlfcn.h>
#include <string.h>

#include "tests/lib/fake-cuda.h"
#include "tests/lib/fake-kernels.h"
#include "tests/nvshmem/device-library.h"

#define WITH_UNIQUEID 0x8u

extern int cuStreamCreate(stream_t *stream, unsigned int flags);
extern int cuStreamDestroy_v2(stream_t stream);
extern int cuMemAlloc_v2(uint64_t *addr, size_t bytes);

static int me, n, right, left;

static void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static void begin(void)
{
	CHECK(device_library_init(0, NULL) == 0);
	CHECK(host.nvshmemid_init_status() == 2 && host.nvshmemx_init_status() == 2);
	me = host.nvshmem_my_pe();
	n = host.nvshmem_n_pes();
	right = (me + 1) % n;
	left = (me + n - 1) % n;
}

/* ---- what kernels read */

static void check_team(const struct nvs_state *state, int index, int size)
{
	uint64_t address = ((uint64_t *)at(state->team_pool))[index];
	const struct nvs_team *team = at(address);
	const int32_t *mapping = at(team->pe_mapping);

	CHECK(team->team_idx == index && team->size == size && team->ll_flag == 1);
	for (int i = 0; i < size; i++)
		CHECK(mapping[size + mapping[i]] == i);
	CHECK(mapping[team->my_pe] == me);
}

static void check_scratch(const struct nvs_state *state, int index)
{
	uint64_t bytes = nvs_psync_of(nvs_version_class(device_library.version), (uint32_t)n).bytes;
	const unsigned char *psync = (unsigned char *)at(state->psync_pool) + (uint64_t)index * bytes;
	const int64_t *counters = (int64_t *)at(state->sync_counter) + 2 * index;

	CHECK(!psync[0] && !memcmp(psync, psync + 1, bytes - 1));
	CHECK(counters[0] == 1 && counters[1] == 1);
}

static void reads_the_state(void)
{
	struct nvs_state state = device_library_state();
	const uint64_t *peers = at(state.peer_heap_base_p2p);

	CHECK(state.mype == me && state.npes == n && state.node_mype == me && state.node_npes == n);
	CHECK(state.is_initialized && state.is_bootstrapped && state.job_connectivity == 1 && !state.ibgda_is_initialized && !device_library.selected);
	CHECK(peers[me] == state.heap_base && ((uint64_t *)at(state.peer_heap_base_remote))[me] == state.heap_base);
	for (int pe = 0; pe < n; pe++)
		CHECK(peers[pe] == (uint64_t)(uintptr_t)host.nvshmem_ptr(at(state.heap_base), pe));
	check_team(&state, NVS_TEAM_WORLD, n);
	check_team(&state, NVS_TEAM_SHARED, n);
	check_team(&state, NVS_TEAM_NODE, n);
	check_team(&state, NVS_TEAM_SAME_MYPE_NODE, 1);
	check_team(&state, NVS_TEAM_SAME_GPU, n);
	CHECK(!((uint64_t *)at(state.team_pool))[NVS_TEAM_GPU_LEADERS] == (me != 0));
	check_scratch(&state, NVS_TEAM_WORLD);
	CHECK(*(uint64_t *)at(state.test_wait_any_start_idx_ptr) == 0 && ((struct nvs_timeout *)at(state.timeout))->version == (1 << 16) + 64);
	if (device_library.version.minor >= 8)
		CHECK(*(uint32_t *)at(state.region_active_count) == 0);
	if (device_library.version.minor >= 7)
		CHECK(((uint64_t *)at(state.unicast_le_ids))[n - 1] == 0);
}

/* ---- the host's calls */

static void uses_the_heap(void)
{
	struct nvs_state state = device_library_state();
	uint64_t *words = host.nvshmem_calloc(n, 8), offset = (uint64_t)(uintptr_t)words - state.heap_base;
	char *first, *second;

	CHECK(words && (uintptr_t)words % 512 == 0 && words[n - 1] == 0);
	host.nvshmem_sync_all();
	/* The arithmetic of device code: the base of the peer and the offset of one's own address. */
	((uint64_t *)at(((uint64_t *)at(state.peer_heap_base_p2p))[right] + offset))[me] = offset;
	host.nvshmem_barrier_all();
	CHECK(words[left] == offset);
	CHECK((uint64_t *)host.nvshmem_ptr(words, me) == words && !host.nvshmem_ptr(&offset, me));
	CHECK(!host.nvshmem_malloc(0) && !host.nvshmem_align(3, 8) && !host.nvshmemx_mc_ptr(0, words));
	/* Freed in another order on each PE; what all have freed serves again. */
	first = host.nvshmem_malloc(1000);
	second = host.nvshmem_align(4096, 1000);
	CHECK((uintptr_t)second % 4096 == 0);
	host.nvshmem_free(me % 2 ? first : second);
	host.nvshmem_free(me % 2 ? second : first);
	CHECK(host.nvshmem_malloc(1000) == first);
	/* The heap grows, and the state holds. */
	first = host.nvshmem_malloc(100u << 20);
	CHECK(first && (uint64_t)(uintptr_t)first - state.heap_base + (100u << 20) <= state.heap_size);
	((char *)host.nvshmem_ptr(first, right))[(100u << 20) - 1] = (char)me;
	host.nvshmem_barrier_all();
	CHECK(first[(100u << 20) - 1] == left);
}

static void puts_and_gets(void)
{
	double *values = host.nvshmem_calloc(100, sizeof(*values));
	int local[4] = {me, me + 10, me + 20, me + 30}, back[8] = {0};
	short stepped[6] = {1, 2, 3, 4, 5, 6};
	float *floats = host.nvshmem_calloc(8, 4);
	uint64_t *all = host.nvshmem_calloc(n + 1, 8);

	host.nvshmem_double_p(&values[0], 1.5 + me, right);
	host.nvshmem_int_put_nbi((int *)&values[10], local, 4, right);
	host.nvshmem_short_iput((short *)&values[20], stepped, 3, 2, 3, right);
	host.nvshmem_quiet();
	host.nvshmem_barrier_all();
	CHECK(values[0] == 1.5 + left && host.nvshmem_double_g(&values[0], right) == 1.5 + me);
	CHECK(((int *)&values[10])[3] == left + 30);
	CHECK(((short *)&values[20])[0] == 1 && ((short *)&values[20])[3] == 3 && ((short *)&values[20])[6] == 5);
	host.nvshmem_getmem(back, &values[10], sizeof(local), right);
	CHECK(back[2] == me + 20);
	host.nvshmem_iget32(back, &values[10], 2, 1, 4, right);
	CHECK(back[6] == me + 30);
	floats[0] = me == n - 1 ? 2.5f : 0;
	all[n] = 100 + (uint64_t)me;
	CHECK(host.nvshmem_float_broadcast(NVS_TEAM_WORLD, &floats[4], floats, 1, n - 1) == 0 && floats[4] == 2.5f);
	CHECK(host.nvshmem_float_broadcast(NVS_TEAM_WORLD, &floats[4], floats, 1, n) == 1 && floats[4] == 2.5f);
	CHECK(host.nvshmem_uint64_fcollect(NVS_TEAM_WORLD, all, &all[n], 1) == 0 && all[right] == 100u + (unsigned int)right);
	host.nvshmem_barrier_all();
}

static void works_on_streams(void)
{
	char *data = host.nvshmem_calloc(1, 4096);
	uint64_t *word = host.nvshmem_calloc(1, 8);
	stream_t stream;

	CHECK(!cuStreamCreate(&stream, 1));
	memset(data, me + 1, 64);
	host.nvshmem_barrier_all();
	host.nvshmemx_putmem_signal_on_stream(data + 64, data, 64, word, 7, 9, right, stream);
	host.nvshmemx_signal_wait_until_on_stream(word, 5, 7, stream);
	CHECK(data[64] == left + 1 && data[127] == left + 1 && host.nvshmem_signal_fetch(word) == 7);
	host.nvshmemx_getmem_on_stream(data + 128, data, 64, right, stream);
	CHECK(data[191] == right + 1);
	host.nvshmemx_barrier_all_on_stream(stream);
	CHECK(host.nvshmemx_broadcastmem_on_stream(NVS_TEAM_WORLD, data + 256, data, 64, n - 1, stream) == 0 && data[319] == n);
	for (int i = 0; i < n; i++)
		data[512 + i] = (char)(10 * me + i);
	CHECK(host.nvshmemx_alltoallmem_on_stream(NVS_TEAM_WORLD, data + 600, data + 512, 1, stream) == 0);
	for (int i = 0; i < n; i++)
		CHECK(data[600 + i] == 10 * i + me);
	host.nvshmemx_int_iput_on_stream((int *)(void *)(data + 1024), (int[]){me, 0, me + 1}, 3, 2, 2, right, stream);
	host.nvshmemx_barrier_all_on_stream(stream);
	CHECK(((int *)(void *)(data + 1024))[0] == left && ((int *)(void *)(data + 1024))[3] == left + 1);
	host.nvshmemx_iget16_on_stream(data + 2048, data + 512, 2, 1, n, right, stream);
	CHECK(data[2048] == (char)(10 * right) && (n < 3 || data[2052] == (char)(10 * right + 2)));
	CHECK(!cuStreamDestroy_v2(stream));
}

static void splits_teams(void)
{
	struct nvs_state state = device_library_state();
	int32_t team = 5, again = 5, row, column;

	for (int i = 0; i < 2; i++) {
		CHECK(host.nvshmem_team_split_strided(NVS_TEAM_WORLD, 0, 1, n, NULL, 0, &team) == 0 && team == NVS_TEAM_FIRST);
		check_team(&state, team, n);
		check_scratch(&state, team);
		/* A kernel leaves something there; it is gone the next time. */
		host.nvshmem_barrier(team);
		*(uint64_t *)((char *)at(state.psync_pool) + (uint64_t)team * nvs_psync_of(nvs_version_class(device_library.version), (uint32_t)n).bytes) = 5;
		((int64_t *)at(state.sync_counter))[2 * team] = 44;
		host.nvshmem_team_destroy(team);
		CHECK(!((uint64_t *)at(state.team_pool))[NVS_TEAM_FIRST]);
	}
	/* PE 0 alone, then all: a number that all have free. */
	CHECK(host.nvshmem_team_split_strided(NVS_TEAM_WORLD, 0, 1, 1, NULL, 0, &team) == 0 && team == (me ? NVS_TEAM_INVALID : NVS_TEAM_FIRST));
	CHECK(host.nvshmem_team_split_strided(NVS_TEAM_WORLD, 0, 1, n, NULL, 0, &again) == 0 && again == (n > 1 ? NVS_TEAM_FIRST + 1 : again));
	CHECK(host.nvshmem_team_my_pe(again) == me && host.nvshmem_team_n_pes(again) == n && host.nvshmem_team_n_pes(team) == (me ? -1 : 1));
	CHECK(host.nvshmem_team_translate_pe(again, right, NVS_TEAM_WORLD) == right);
	host.nvshmem_team_destroy(team);
	host.nvshmem_team_destroy(again);
	CHECK(host.nvshmem_team_split_2d(NVS_TEAM_WORLD, n, NULL, 0, &row, NULL, 0, &column) == 0);
	CHECK(host.nvshmem_team_n_pes(row) == n && host.nvshmem_team_n_pes(column) == 1);
	host.nvshmem_team_destroy(row);
	host.nvshmem_team_destroy(column);
	CHECK(host.nvshmem_team_split_strided(99, 0, 1, 1, NULL, 0, &team) == 1);
}

/* Kernels of another class in the same process have scratch and teams of their own. */
static void has_kernels_of_another_class(void)
{
	int other = device_library.version.minor <= 4 ? 8 : 4;
	struct nvs_version version = {3, other, 0};
	unsigned long bytes = other == 8 ? 848 : 776;
	struct nvs_state state = device_library_state(), theirs;
	unsigned char *symbols;
	uint64_t address = 0;

	CHECK(!cuMemAlloc_v2(&address, 4096));
	symbols = at(address);
	memset(symbols, 0xee, 4096);
	memcpy(symbols + 2048, &version, sizeof(version));
	{
		const struct fake_cuda_symbol kernels[] = {{"nvshmemi_device_lib_version_d", address + 2048, 12}, {"nvshmemi_device_state_d", address, bytes},
							   {NULL, 0, 0}};
		const struct fake_cuda_symbol none[] = {{NULL, 0, 0}};

		CHECK(host.nvshmemx_cumodule_init(kernels) == 0);
		memcpy(&theirs, symbols, bytes);
		CHECK(symbols[bytes] == 0xee && theirs.version == (1 << 16) + (int)bytes && theirs.mype == me && theirs.heap_base == state.heap_base);
		CHECK(theirs.psync_pool != state.psync_pool && theirs.sync_counter != state.sync_counter && theirs.team_pool != state.team_pool);
		CHECK(host.nvshmemx_cumodule_finalize(kernels) == 0);
		CHECK(host.nvshmemx_culibrary_init(kernels) == 0);
		CHECK(host.nvshmemx_cumodule_init(none) != 0);
		version.minor = NVS_NEWEST_MINOR + 1;
		memcpy(symbols + 2048, &version, sizeof(version));
		CHECK(host.nvshmemx_cumodule_init(kernels) == 3);
	}
}

/* The id of PE 0 travels by the job that there is; then that one ends, and another begins by it. */
static void begins_again_by_id(void)
{
	struct nvs_uid *shared = host.nvshmem_malloc(sizeof(*shared)), uid;
	struct nvs_init_attr attr;
	void *memory = host.nvshmem_malloc(64);

	CHECK(host.nvshmemx_get_uniqueid(&uid) == 0);
	for (int pe = 0; !me && pe < n; pe++)
		host.nvshmem_putmem(shared, &uid, sizeof(uid), pe);
	host.nvshmem_barrier_all();
	uid = *shared;
	/* A second reference: the job lives until both have ended. */
	CHECK(host.nvshmemx_hostlib_init_attr(0, NULL) == 0);
	device_library_finalize();
	CHECK(host.nvshmemid_init_status() == 2);
	host.nvshmemx_hostlib_finalize();
	CHECK(host.nvshmemid_init_status() == 0);
	host.nvshmem_free(memory);
	host.nvshmem_free(memory);
	CHECK(host.nvshmem_my_pe() == -1 && !host.nvshmem_malloc(8));
	/* Only these fields are anybody's. */
	memset(&attr, 0xdd, sizeof(attr));
	CHECK(host.nvshmemx_set_attr_uniqueid_args(me, n, &uid, &attr) == 0);
	memset(device_library.state, 0xee, 4096);
	CHECK(device_library_init(WITH_UNIQUEID, &attr) == 0);
	CHECK(host.nvshmem_my_pe() == me && host.nvshmem_n_pes() == n && device_library.n_asked == 2);
	reads_the_state();
	uses_the_heap();
	device_library_finalize();
	device_library_finalize();
}

static void does_all(void)
{
	int major, minor, patch;

	fake_cuda_set_current(0);
	begin();
	host.nvshmem_info_get_version(&major, &minor);
	CHECK(major == 1 && minor == 3);
	host.nvshmemx_vendor_get_version_info(&major, &minor, &patch);
	CHECK(major == 3 && minor == NVS_NEWEST_MINOR);
	reads_the_state();
	uses_the_heap();
	puts_and_gets();
	works_on_streams();
	splits_teams();
	has_kernels_of_another_class();
	begins_again_by_id();
}

/* ---- other ways */

/* A program that asks for its number on the node before it selects a GPU. */
static void selects_late(void)
{
	fake_cuda_set_current(-1);
	CHECK(device_library_init(0, NULL) == 0 && host.nvshmemid_init_status() == 1 && !device_library.n_asked);
	me = host.nvshmem_my_pe();
	n = host.nvshmem_n_pes();
	CHECK(host.nvshmem_team_my_pe(NVS_TEAM_NODE) == me && host.nvshmem_team_n_pes(NVS_TEAM_NODE) == n && host.nvshmemid_init_status() == 1);
	CHECK(!host.nvshmem_malloc(8) && host.nvshmemid_init_status() == 1);
	fake_cuda_set_current(me % FAKE_CUDA_GPUS);
	/* As the first launch does it. */
	CHECK(host.nvshmemid_hostlib_init_attr(2, NULL, 0, NULL, device_library.version, NULL) == 0);
	host.nvshmemid_hostlib_finalize(NULL, NULL);
	CHECK(host.nvshmemid_init_status() == 2 && device_library.n_asked == 1);
	CHECK(device_library_state().mype == me);
	CHECK(host.nvshmem_team_n_pes(NVS_TEAM_SAME_GPU) == (n + 1 - me % 2) / 2 && host.nvshmem_malloc(8));
	device_library_finalize();
}

static void many_cycles(void)
{
	fake_cuda_set_current(0);
	for (int i = 0; i < 20; i++) {
		begin();
		CHECK(host.nvshmem_malloc(4096));
		device_library_finalize();
		CHECK(host.nvshmemid_init_status() == 0);
	}
	CHECK(fake_cuda_counts().mapped + fake_cuda_counts().memories + fake_cuda_counts().reserved == 0);
	CHECK(fake_cuda_counts().allocations == 1 && fake_cuda_counts().streams == 0); /* the device library's own symbols */
}

/* Another library of the name, as a program has it that finds NVIDIA's by itself. */
static void loads_another(void)
{
	const char *other = getenv("OTHER_LIBRARY");

	CHECK(!other || dlopen(other, RTLD_NOW | (getenv("OTHER_IS_GLOBAL") ? RTLD_GLOBAL : RTLD_LOCAL)));
	begin();
	device_library_finalize();
}

static void is_refused(void)
{
	fake_cuda_set_current(0);
	CHECK(device_library_init(0, NULL) == 3 && host.nvshmemid_init_status() == 0 && !device_library.n_asked);
}

/* One PE has no room for its tables: no PE has a job. One cannot zero: no PE has the memory. */
static void fails_on_one(void)
{
	bool fails = !strcmp(getenv("SHMD_RANK"), "1");

	fake_cuda_set_current(0);
	if (fails)
		fake_cuda_fail_after("cuMemAlloc_v2", 2, 2, 1);
	CHECK(device_library_init(0, NULL) != 0 && host.nvshmemid_init_status() == 0);
	begin();
	if (fails)
		fake_cuda_fail("cuMemsetD8Async", 1);
	CHECK(!host.nvshmem_calloc(1, 4096));
	CHECK(host.nvshmem_calloc(1, 4096));
	device_library_finalize();
}

int main(int argc, char **argv)
{
	static const struct way ways[] = {{"all", does_all}, {"late", selects_late}, {"cycles", many_cycles}, {"refused", is_refused}, {"fails", fails_on_one}, {"another", loads_another}};

	(void)argc;
	return device_library_main(argv, ways, sizeof(ways) / sizeof(ways[0]), fake_kernels_add);
}

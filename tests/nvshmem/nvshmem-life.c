/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvshmem-life MINOR WAY: a PE of a job whose begin or end goes another way than that of nvshmem-pe.c: failures on one PE, copies under way, forks, ids
 * that nobody uses. test-nvshmem.py starts it.
 */
#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/fake-cuda.h"
#include "tests/nvshmem/device-library.h"

#define WITH_UNIQUEID 0x8u
#define MANY 100

extern int cuStreamCreate(stream_t *stream, unsigned int flags);
extern int cuStreamDestroy_v2(stream_t stream);

static bool is_pe(const char *pe)
{
	return !strcmp(getenv("SHMD_RANK"), pe);
}

static void begin(void)
{
	CHECK(device_library_init(0, NULL) == 0 && host.nvshmemid_init_status() == 2);
}

/* The device library of PE 1 does not find its state: no PE has a job, and none waits for another. The next time it does. */
static void finds_no_state(void)
{
	device_library.is_lost = is_pe("1");
	CHECK(device_library_init(0, NULL) != 0 && host.nvshmemid_init_status() == 0);
	device_library.is_lost = false;
	begin();
	CHECK(device_library_state().npes == 2 && host.nvshmem_malloc(8));
	device_library_finalize();
}

/* The same at the first call that needs the heap. Each try takes the memory of the one before it. */
static void finds_no_state_late(void)
{
	int n_memories = 0;

	fake_cuda_set_current(-1);
	CHECK(device_library_init(0, NULL) == 0 && host.nvshmemid_init_status() == 1);
	fake_cuda_set_current(0);
	device_library.is_lost = is_pe("1");
	for (int i = 0; i < 3; i++) {
		CHECK(!host.nvshmem_malloc(8) && host.nvshmemid_init_status() == 1);
		CHECK(!i || fake_cuda_counts().memories == n_memories);
		n_memories = fake_cuda_counts().memories;
	}
	device_library.is_lost = false;
	CHECK(host.nvshmem_malloc(8) && host.nvshmemid_init_status() == 2 && device_library_state().npes == 2);
	device_library_finalize();
}

/* Finalize completes what was begun. */
static void ends_with_copies_under_way(void)
{
	int *words, *got = calloc(4, sizeof(*got)), from;

	begin();
	from = (host.nvshmem_my_pe() + 1) % host.nvshmem_n_pes();
	words = host.nvshmem_calloc(4, sizeof(*words));
	words[3] = 7;
	host.nvshmem_barrier_all();
	fake_cuda_put_off(1000);
	host.nvshmem_int_get_nbi(got, words, 4, from);
	host.nvshmem_int_put_nbi(words, got, 1, from);
	device_library_finalize();
	fake_cuda_put_off(0);
	CHECK(got[3] == 7);
	free(got);
}

/* A blocking get that fails half way: what it has begun is complete when it returns. */
static void ends_half_way(void)
{
	int *words, *got = calloc(4, sizeof(*got)), from;

	begin();
	from = (host.nvshmem_my_pe() + 1) % host.nvshmem_n_pes();
	words = host.nvshmem_calloc(4, sizeof(*words));
	words[0] = words[1] = 7;
	host.nvshmem_barrier_all();
	fake_cuda_put_off(1000);
	fake_cuda_fail_after("cuMemcpyAsync", 1, 1, 1);
	host.nvshmem_iget32(got, words, 1, 1, 2, from);
	CHECK(got[0] == 7 && got[1] == 0);
	fake_cuda_put_off(0);
	host.nvshmem_barrier_all();
	device_library_finalize();
	free(got);
}

/* PE 0 frees while another of its threads waits in an allocation, for PE 1, which waits for what follows the free. */
static void *free_and_tell(void *words)
{
	usleep(100000);
	host.nvshmem_free((uint64_t *)words + 64);
	*(volatile uint64_t *)host.nvshmem_ptr(words, 1) = 1;
	return NULL;
}

static void frees_meanwhile(void)
{
	pthread_t thread;
	uint64_t *words;

	begin();
	words = host.nvshmem_calloc(1, 512);
	CHECK(host.nvshmem_malloc(512) == words + 64);
	CHECK(!is_pe("0") || !pthread_create(&thread, NULL, free_and_tell, words));
	while (is_pe("1") && !*(volatile uint64_t *)words)
		usleep(1000);
	CHECK(host.nvshmem_malloc(512));
	CHECK(!is_pe("0") || !pthread_join(thread, NULL));
	device_library_finalize();
}

/* A collective in which PE 1 cannot copy: nobody waits for ever, and the host's call fails on all PEs. */
static void cannot_copy(void)
{
	uint64_t *words;
	stream_t stream;

	begin();
	words = host.nvshmem_calloc(8, sizeof(*words));
	CHECK(!cuStreamCreate(&stream, 1));
	if (is_pe("1"))
		fake_cuda_fail("cuMemcpyAsync", 1);
	CHECK(host.nvshmem_uint64_fcollect(NVS_TEAM_WORLD, words, &words[4], 1) != 0);
	CHECK(host.nvshmem_uint64_fcollect(NVS_TEAM_WORLD, words, &words[4], 1) == 0);
	if (is_pe("1"))
		fake_cuda_fail("cuMemcpyAsync", 1);
	CHECK(!host.nvshmemx_alltoallmem_on_stream(NVS_TEAM_WORLD, words, &words[4], 8, stream) == !is_pe("1"));
	host.nvshmemx_barrier_all_on_stream(stream);
	CHECK(!cuStreamDestroy_v2(stream));
	device_library_finalize();
}

/* ---- forks */

static int in_child(void (*run)(void *memory), void *memory)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		run(memory);
		_exit(fake_cuda_counts().in_children ? 2 : 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

/* As destructors of a program do it that a child inherits. */
static void leaves(void *memory)
{
	host.nvshmem_free(memory);
	host.nvshmem_team_destroy(NVS_TEAM_FIRST);
	device_library_finalize();
	CHECK(host.nvshmemid_init_status() == 0);
}

static void uses_it_all_the_same(void *memory)
{
	int value = 5;

	host.nvshmem_putmem(memory, &value, sizeof(value), 0);
	CHECK(!host.nvshmem_malloc(8) && host.nvshmem_barrier(NVS_TEAM_WORLD) != 0);
	CHECK(host.nvshmemx_hostlib_init_attr(0, NULL) != 0);
}

/* The job is the parent's, and goes on; no child uses CUDA. */
static void forks(void)
{
	int32_t team;
	int *memory;

	begin();
	memory = host.nvshmem_calloc(1, 4096);
	CHECK(!host.nvshmem_team_split_strided(NVS_TEAM_WORLD, 0, 1, host.nvshmem_n_pes(), NULL, 0, &team) && team == NVS_TEAM_FIRST);
	CHECK(in_child(leaves, memory) == 0);
	CHECK(in_child(uses_it_all_the_same, memory) == 0);
	host.nvshmem_barrier(team);
	CHECK(*memory == 0 && host.nvshmem_malloc(8));
	device_library_finalize();
}

/* ---- ids */

static int count_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

/* Every PE makes an id for each job, and all use that of PE 0. */
static void makes_ids(void)
{
	struct nvs_uid *shared, uid;
	struct nvs_init_attr attr;
	int n_fds, me;

	begin();
	me = host.nvshmem_my_pe();
	shared = host.nvshmem_malloc(sizeof(*shared));
	n_fds = count_fds();
	for (int i = 0; i < MANY; i++)
		CHECK(host.nvshmemx_get_uniqueid(&uid) == 0);
	CHECK(count_fds() <= n_fds + MANY / 2);
	for (int pe = 0; !me && pe < host.nvshmem_n_pes(); pe++)
		host.nvshmem_putmem(shared, &uid, sizeof(uid), pe);
	host.nvshmem_barrier_all();
	uid = *shared;
	device_library_finalize();
	CHECK(host.nvshmemx_set_attr_uniqueid_args(me, 2, &uid, &attr) == 0);
	CHECK(device_library_init(WITH_UNIQUEID, &attr) == 0);
	/* It is used up. */
	for (int i = 0; i < MANY; i++) {
		struct nvs_uid other;

		CHECK(host.nvshmemx_get_uniqueid(&other) == 0 && (me || memcmp(&other, &uid, sizeof(uid)) != 0));
	}
	device_library_finalize();
}

int main(int argc, char **argv)
{
	static const struct way ways[] = {{"stateless", finds_no_state}, {"stateless-late", finds_no_state_late}, {"copies", ends_with_copies_under_way}, {"half-way", ends_half_way}, {"forks", forks},
		    {"ids", makes_ids}, {"copyless", cannot_copy}, {"frees", frees_meanwhile}};

	(void)argc;
	return device_library_main(argv, ways, sizeof(ways) / sizeof(ways[0]), NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heaps of several processes in each other's address space. PE 0 makes the memory and sends the descriptor over a socket, as the
 * daemon would. mmap is wrapped (meson.build), so that each call of it can fail once.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/heap/heap-alloc.h"
#include "libclient/runtime/heap/heap-map.h"
#include "proto/base/cleanup.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define N_PES 4u
#define CHUNK (4 * MIB)

/* ---- mmap that fails ----------------------------------------------------------------------------------------------------- */

static unsigned int n_fixed, fail_from, fail_n; /* calls with MAP_FIXED: the fail_from-th, from 1, and the next fail_n - 1 fail */

void *__real_mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);

/* As the kernel may: what was there is gone. */
void *__wrap_mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (flags & MAP_FIXED) {
		n_fixed++;
		if (fail_from && n_fixed >= fail_from && n_fixed < fail_from + fail_n) {
			munmap(at, bytes);
			errno = ENOMEM;
			return MAP_FAILED;
		}
	}
	return __real_mmap64(at, bytes, prot, flags, fd, offset);
}

static void fail_calls(unsigned int from, unsigned int n)
{
	n_fixed = 0;
	fail_from = from;
	fail_n = n;
}

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

/* The kernel reads a byte of ours: no signal if it cannot. */
static bool is_readable(const void *at)
{
	int ends[2];
	bool is_good;

	ASSERT_OK(pipe2(ends, O_CLOEXEC));
	is_good = write(ends[1], at, 1) == 1;
	ASSERT(is_good || errno == EFAULT);
	close(ends[0]);
	close(ends[1]);
	return is_good;
}

/* In /proc/self/maps, with these rights, from `at` on without a gap; in any number of mappings. */
static bool is_mapped(const void *at, uint64_t bytes, const char *rights)
{
	uint64_t from = (uintptr_t)at, to = from + bytes;
	char line[512], has[8];
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long start, end;

	ASSERT(maps);
	while (from < to && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%llx-%llx %7s", &start, &end, has) == 3 && start <= from && from < end &&
		    !strcmp(has, rights))
			from = end;
	fclose(maps);
	return from >= to;
}

static struct heap_map *map_of(uint32_t n_local, uint32_t own)
{
	struct heap_map *map;

	ASSERT_OK(heap_map_new(&(struct heap_map_attr){.n_local = n_local, .own = own, .range_bytes = GIB}, &map));
	return map;
}

static int memory_of(uint32_t n_local, uint64_t bytes)
{
	struct heap_memory memory;

	ASSERT_OK(heap_memory_new(&(struct heap_memory_attr){.n_local = n_local, .bytes = bytes}, &memory));
	return memory.fd;
}

static uint8_t *at(const struct heap_map *map, uint32_t pe, uint64_t offset)
{
	return (uint8_t *)heap_map_base(map, pe) + offset;
}

/* ---- several processes --------------------------------------------------------------------------------------------------- */

struct job {
	pthread_barrier_t barrier;
};

static void send_fd(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(fd))] = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	ASSERT_EQ(sendmsg(socket, &message, 0), 1);
}

static int receive_fd(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&byte, 1};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	int fd;

	ASSERT_EQ(recvmsg(socket, &message, MSG_CMSG_CLOEXEC), 1);
	ASSERT(CMSG_FIRSTHDR(&message));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

static void sync_all(struct job *job)
{
	int r = pthread_barrier_wait(&job->barrier);

	ASSERT(r == 0 || r == PTHREAD_BARRIER_SERIAL_THREAD);
}

/* Two chunks that follow each other; PE 0 makes them, sockets[i] leads to PE i. */
static void map_two_chunks(struct heap_map *map, uint32_t own, int sockets[N_PES][2])
{
	for (uint64_t offset = 0; offset < 2 * CHUNK; offset += CHUNK) {
		_cleanup_close_ int fd = own ? receive_fd(sockets[own][1]) : memory_of(N_PES, CHUNK);

		for (uint32_t pe = 1; !own && pe < N_PES; pe++)
			send_fd(sockets[pe][0], fd);
		ASSERT_OK(heap_map_chunk(map, fd, offset, CHUNK));
	}
}

static uint8_t pattern(uint32_t pe, uint64_t offset)
{
	return (uint8_t)(pe * 37 + offset / 4096 + 1);
}

static void run_pe(struct job *job, uint32_t own, int sockets[N_PES][2])
{
	struct heap_map *map = map_of(N_PES, own);
	uint8_t across[128];

	map_two_chunks(map, own, sockets);
	for (uint64_t offset = 0; offset < 2 * CHUNK; offset += 4096)
		*at(map, own, offset) = pattern(own, offset);
	sync_all(job);
	for (uint32_t pe = 0; pe < N_PES; pe++)
		for (uint64_t offset = 0; offset < 2 * CHUNK; offset += 4096)
			ASSERT_EQ(*at(map, pe, offset), pattern(pe, offset));
	sync_all(job);
	/* Into the next PE, across the end of the first chunk. */
	memset(at(map, (own + 1) % N_PES, CHUNK - 64), (int)(100 + own), 128);
	sync_all(job);
	memset(across, (int)(100 + (own + N_PES - 1) % N_PES), sizeof(across));
	ASSERT_MEMEQ(at(map, own, CHUNK - 64), across, sizeof(across));
	sync_all(job);
	heap_map_free(map);
}

TEST(part_i_of_a_chunk_is_the_memory_of_pe_i_in_every_process)
{
	struct job *job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t shared;
	int sockets[N_PES][2], status;
	pid_t pids[N_PES];

	ASSERT_NE(job, MAP_FAILED);
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	ASSERT_OK(pthread_barrier_init(&job->barrier, &shared, N_PES));
	for (uint32_t pe = 1; pe < N_PES; pe++)
		ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets[pe]));
	for (uint32_t pe = 1; pe < N_PES; pe++) {
		pids[pe] = fork();
		ASSERT_GE(pids[pe], 0);
		if (!pids[pe]) {
			run_pe(job, pe, sockets);
			_exit(0);
		}
	}
	run_pe(job, 0, sockets);
	for (uint32_t pe = 1; pe < N_PES; pe++) {
		ASSERT_EQ(waitpid(pids[pe], &status, 0), pids[pe]);
		ASSERT_EQ(status, 0);
		close(sockets[pe][0]);
		close(sockets[pe][1]);
	}
	munmap(job, sizeof(*job));
}

/* ---- memory */

TEST(memory_is_sealed_and_its_descriptor_does_not_survive_exec)
{
	int fd = memory_of(2, CHUNK);
	struct stat st;

	ASSERT_EQ(fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	ASSERT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	ASSERT_EQ(ftruncate(fd, 4096), -1);
	ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	ASSERT_OK(fstat(fd, &st));
	ASSERT_EQ(st.st_size, 2 * CHUNK);
	close(fd);
}

/* So the PE that owns a part decides on which NUMA node its pages are. */
TEST(mapping_a_chunk_touches_no_page_of_it)
{
	struct heap_map *map = map_of(2, 0);
	int fd = memory_of(2, CHUNK);
	struct stat st;

	ASSERT_OK(heap_map_chunk(map, fd, 0, CHUNK));
	ASSERT_OK(fstat(fd, &st));
	ASSERT_EQ(st.st_blocks, 0);
	*at(map, 0, 0) = 1;
	ASSERT_OK(fstat(fd, &st));
	ASSERT_GT(st.st_blocks, 0);
	close(fd);
	heap_map_free(map);
}

TEST(huge_pages_are_taken_if_they_are_free_and_else_the_reason_is_said)
{
	struct heap_map *map;
	struct heap_memory memory;

	ASSERT_OK(heap_map_new(&(struct heap_map_attr){.n_local = 2, .is_huge = true, .range_bytes = GIB}, &map));
	ASSERT_OK(heap_memory_new(&(struct heap_memory_attr){.n_local = 2, .bytes = CHUNK, .is_huge = true}, &memory));
	printf("pages of %llu bytes; %s\n", (unsigned long long)memory.page_bytes, memory.why);
	ASSERT_EQ(memory.page_bytes == HEAP_MAP_STEP, !memory.why[0]);
	ASSERT_OK(heap_map_chunk(map, memory.fd, 0, CHUNK));
	memset(at(map, 1, 0), 7, CHUNK);
	close(memory.fd);
	/* More than any machine has. */
	ASSERT_OK(heap_memory_new(&(struct heap_memory_attr){.n_local = 1024, .bytes = 1024 * GIB, .is_huge = true}, &memory));
	ASSERT_NE(memory.page_bytes, HEAP_MAP_STEP);
	ASSERT(strstr(memory.why, "huge pages of 2 MiB"));
	close(memory.fd);
	heap_map_free(map);
}

TEST(memory_of_sizes_that_cannot_be_is_refused)
{
	struct heap_memory memory;
	uint64_t bytes = 77;

	ASSERT_ERR(heap_memory_new(&(struct heap_memory_attr){.n_local = 0, .bytes = CHUNK}, &memory), EINVAL);
	ASSERT_ERR(heap_memory_new(&(struct heap_memory_attr){.n_local = 1, .bytes = 0}, &memory), EINVAL);
	ASSERT_ERR(heap_memory_new(&(struct heap_memory_attr){.n_local = 1, .bytes = MIB}, &memory), EINVAL);
	ASSERT_ERR(heap_memory_new(&(struct heap_memory_attr){.n_local = 8, .bytes = UINT64_C(1) << 61}, &memory), EINVAL);
	ASSERT_ERR(heap_memory_new(&(struct heap_memory_attr){.n_local = 2, .bytes = UINT64_C(1) << 62}, &memory), EINVAL);
	ASSERT_ERR(heap_chunk_round(UINT64_MAX - 5, &bytes), EOVERFLOW);
	ASSERT_EQ(bytes, 77);
	ASSERT_OK(heap_chunk_round(0, &bytes));
	ASSERT_EQ(bytes, HEAP_MAP_STEP);
	ASSERT_OK(heap_chunk_round(HEAP_MAP_STEP + 1, &bytes));
	ASSERT_EQ(bytes, 2 * HEAP_MAP_STEP);
}

/* ---- ranges */

TEST(ranges_are_aligned_apart_and_reserved)
{
	struct heap_map *map = map_of(3, 1);
	uint64_t range = heap_map_range_bytes(map);

	ASSERT_EQ(range, GIB);
	for (uint32_t pe = 0; pe < 3; pe++) {
		ASSERT_EQ((uintptr_t)heap_map_base(map, pe) % HEAP_MAX_ALIGN, 0);
		ASSERT_EQ(at(map, pe, 0) - at(map, 0, 0), pe * range);
		ASSERT(is_mapped(at(map, pe, 0), range, "---p"));
	}
	ASSERT_EQ((uintptr_t)heap_map_base(map, 3), 0);
	heap_map_free(map);
	heap_map_free(NULL);
}

TEST(without_a_wish_a_range_has_64_gib)
{
	struct heap_map *map;

	if (test_has_sanitizer() || test_emulator())
		test_skip("a sanitizer or an emulator takes address space, too");
	ASSERT_OK(heap_map_new(&(struct heap_map_attr){.n_local = 8}, &map));
	ASSERT_EQ(heap_map_range_bytes(map), 64 * GIB);
	heap_map_free(map);
}

TEST(a_range_larger_than_the_address_space_is_halved_until_it_fits)
{
	struct heap_map *map;

	if (test_emulator())
		test_skip("an emulator has a table of all pages");
	ASSERT_OK(heap_map_new(&(struct heap_map_attr){.n_local = 2, .range_bytes = UINT64_MAX}, &map));
	ASSERT_GE(heap_map_range_bytes(map), GIB);
	ASSERT_EQ(heap_map_range_bytes(map) % HEAP_MAX_ALIGN, 0);
	heap_map_free(map);
	ASSERT_ERR(heap_map_new(&(struct heap_map_attr){.n_local = UINT32_MAX}, &map), ENOMEM);
	ASSERT_ERR(heap_map_new(&(struct heap_map_attr){.n_local = 2, .range_bytes = UINT64_MAX,
				.least_bytes = UINT64_C(1) << 50}, &map),
		   ENOMEM);
	ASSERT_ERR(heap_map_new(&(struct heap_map_attr){.n_local = 0}, &map), EINVAL);
	ASSERT_ERR(heap_map_new(&(struct heap_map_attr){.n_local = 2, .own = 2}, &map), EINVAL);
}

static void limit_address_space(uint64_t more)
{
	unsigned long long pages;
	FILE *statm = fopen("/proc/self/statm", "re");
	struct rlimit limit;

	ASSERT(statm);
	ASSERT_EQ(fscanf(statm, "%llu", &pages), 1);
	fclose(statm);
	ASSERT_OK(getrlimit(RLIMIT_AS, &limit));
	limit.rlim_cur = pages * (uint64_t)sysconf(_SC_PAGESIZE) + more;
	ASSERT_OK(setrlimit(RLIMIT_AS, &limit));
}

TEST(ranges_take_at_most_half_of_what_rlimit_as_leaves)
{
	struct heap_map *map, *other;

	if (test_has_sanitizer() || test_emulator())
		test_skip("a sanitizer or an emulator does not run with a limit of address space");
	limit_address_space(8 * GIB);
	ASSERT_OK(heap_map_new(&(struct heap_map_attr){.n_local = 4, .own = 3}, &map));
	ASSERT_EQ(heap_map_range_bytes(map), GIB / 2);
	free(malloc(GIB));
	ASSERT_OK(heap_map_new(&(struct heap_map_attr){.n_local = 4, .own = 3}, &other));
	heap_map_free(other);
	heap_map_free(map);
	limit_address_space(64 * MIB);
	ASSERT_ERR(heap_map_new(&(struct heap_map_attr){.n_local = 4}, &map), ENOMEM);
	ASSERT(strstr(shmd_error_text(), "ulimit -v"));
}

TEST(a_world_that_maps_no_peers_has_its_own_part_alone)
{
	struct heap_map *map;
	int fd = memory_of(3, CHUNK);
	uint8_t *file = mmap(NULL, 3 * CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	ASSERT_NE(file, MAP_FAILED);
	ASSERT_OK(heap_map_new(&(struct heap_map_attr){.n_local = 3, .own = 2, .is_own_only = true, .range_bytes = GIB}, &map));
	ASSERT_EQ((uintptr_t)heap_map_base(map, 0), 0);
	ASSERT_OK(heap_map_chunk(map, fd, 2 * CHUNK, CHUNK));
	*at(map, 2, 2 * CHUNK + 5) = 9;
	ASSERT_EQ(file[2 * CHUNK + 5], 9);
	munmap(file, 3 * CHUNK);
	close(fd);
	heap_map_free(map);
}

/* ---- chunks */

TEST(chunks_that_do_not_fit_into_the_ranges_are_refused)
{
	struct heap_map *map = map_of(2, 0);
	int fd = memory_of(2, CHUNK);

	ASSERT_OK(heap_map_chunk(map, fd, 8 * MIB, CHUNK));
	ASSERT_ERR(heap_map_chunk(map, fd, 8 * MIB, CHUNK), EINVAL);
	ASSERT_ERR(heap_map_chunk(map, fd, 10 * MIB, CHUNK), EINVAL);
	ASSERT_ERR(heap_map_chunk(map, fd, 6 * MIB, CHUNK), EINVAL);
	ASSERT_ERR(heap_map_chunk(map, fd, GIB - 2 * MIB, CHUNK), EINVAL);
	ASSERT_ERR(heap_map_chunk(map, fd, UINT64_MAX - 2 * MIB + 1, CHUNK), EINVAL);
	ASSERT_ERR(heap_map_chunk(map, fd, 4096, CHUNK), EINVAL);
	ASSERT_ERR(heap_map_chunk(map, fd, 0, 0), EINVAL);
	ASSERT_OK(heap_map_chunk(map, fd, 4 * MIB, CHUNK));
	ASSERT_OK(heap_map_chunk(map, fd, GIB - CHUNK, CHUNK));
	ASSERT(is_mapped(at(map, 1, GIB - CHUNK), CHUNK, "rw-s"));
	close(fd);
	heap_map_free(map);
}

/* In the VmFlags of /proc/self/smaps, if there is such a line. */
static bool has_flag(const void *of, const char *flag, bool *ret_is_known)
{
	unsigned long long start, end;
	bool is_inside = false, has = false;
	FILE *smaps = fopen("/proc/self/smaps", "re");
	char line[512];

	ASSERT(smaps);
	*ret_is_known = false;
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%llx-%llx ", &start, &end) == 2)
			is_inside = start <= (uintptr_t)of && (uintptr_t)of < end;
		if (!is_inside || strncmp(line, "VmFlags:", 8))
			continue;
		*ret_is_known = true;
		has = strstr(line, flag);
	}
	fclose(smaps);
	return has;
}

/* Or a node's dump has the heap of every PE in the dump of every PE. */
TEST(dumps_have_the_heap_of_their_own_pe_and_no_other)
{
	struct heap_map *map;
	bool is_known;
	int fd;

	if (test_emulator())
		test_skip("an emulator of programs may drop what madvise asks");
	map = map_of(3, 1);
	fd = memory_of(3, CHUNK);
	ASSERT_OK(heap_map_chunk(map, fd, 0, CHUNK));
	has_flag(at(map, 1, 0), " dd", &is_known);
	if (!is_known)
		test_skip("the kernel shows no flags of mappings");
	for (uint32_t pe = 0; pe < 3; pe++)
		ASSERT_EQ(has_flag(at(map, pe, 0), " dd", &is_known), pe != 1);
	close(fd);
	heap_map_free(map);
}

TEST(descriptors_that_are_no_sealed_memory_of_the_right_size_are_refused)
{
	struct heap_map *map = map_of(2, 0);
	int open_memfd = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING), shorter = memory_of(1,
												    CHUNK), longer = memory_of(3, CHUNK);
	char path[64];
	int file;

	test_make_file(path, sizeof(path), "heap");
	file = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_OK(ftruncate(open_memfd, 2 * CHUNK));
	ASSERT_OK(ftruncate(file, 2 * CHUNK));
	ASSERT_ERR(heap_map_chunk(map, open_memfd, 0, CHUNK), EINVAL);
	ASSERT(strstr(shmd_error_text(), "sealed"));
	ASSERT_ERR(heap_map_chunk(map, file, 0, CHUNK), EINVAL);
	ASSERT_ERR(heap_map_chunk(map, -1, 0, CHUNK), EINVAL);
	ASSERT_ERR(heap_map_chunk(map, shorter, 0, CHUNK), EINVAL);
	ASSERT_ERR(heap_map_chunk(map, longer, 0, CHUNK), EINVAL);
	ASSERT(strstr(shmd_error_text(), "not 2 times"));
	ASSERT(is_mapped(at(map, 0, 0), 2 * GIB, "---p"));
	close(open_memfd);
	close(shorter);
	close(longer);
	close(file);
	unlink(path);
	heap_map_free(map);
}

TEST(a_chunk_that_is_undone_leaves_reserved_addresses_and_can_be_mapped_again)
{
	struct heap_map *map = map_of(N_PES, 2);
	int fd = memory_of(N_PES, CHUNK);

	ASSERT_OK(heap_map_chunk(map, fd, 0, CHUNK));
	ASSERT_OK(heap_map_chunk(map, fd, CHUNK, CHUNK));
	heap_map_undo(map, 2 * CHUNK);
	heap_map_undo(map, 0);
	ASSERT(!is_readable(at(map, 2, 0)));
	ASSERT(is_readable(at(map, 2, CHUNK)));
	for (uint32_t pe = 0; pe < N_PES; pe++)
		ASSERT(is_mapped(at(map, pe, 0), CHUNK, "---p"));
	ASSERT_OK(heap_map_chunk(map, fd, 0, CHUNK));
	close(fd);
	heap_map_free(map);
}

TEST(a_chunk_that_fails_at_any_part_leaves_all_addresses_reserved)
{
	struct heap_map *map = map_of(N_PES, 0);
	int fd = memory_of(N_PES, CHUNK);

	for (unsigned int part = 1; part <= N_PES; part++) {
		fail_calls(part, 1);
		ASSERT_ERR(heap_map_chunk(map, fd, CHUNK, CHUNK), ENOMEM);
		fail_calls(0, 0);
		ASSERT(is_mapped(at(map, 0, 0), N_PES * GIB, "---p"));
	}
	ASSERT_OK(heap_map_chunk(map, fd, CHUNK, CHUNK));
	close(fd);
	heap_map_free(map);
}

/* Another thread may have mapped something there since: it must stay. */
TEST(addresses_that_could_not_be_reserved_again_are_left_alone_for_good)
{
	struct heap_map *map = map_of(N_PES, 0);
	int fd = memory_of(N_PES, CHUNK);
	uint8_t *base = at(map, 0, 0), *others;

	fail_calls(2, 100);
	ASSERT_ERR(heap_map_chunk(map, fd, 0, CHUNK), ENOMEM);
	fail_calls(0, 0);
	others = mmap(base, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ASSERT_EQ((uintptr_t)others, (uintptr_t)base);
	ASSERT_ERR(heap_map_chunk(map, fd, 0, CHUNK), ENOMEM);
	heap_map_free(map);
	ASSERT(is_mapped(others, CHUNK, "rw-p"));
	munmap(base, N_PES * GIB);
	close(fd);
}

TEST(there_are_at_most_as_many_chunks_as_the_allocator_has)
{
	struct heap_map *map = map_of(2, 0);
	int fd = memory_of(2, HEAP_MAP_STEP);

	for (unsigned int i = 0; i < HEAP_MAX_CHUNKS; i++)
		ASSERT_OK(heap_map_chunk(map, fd, i * HEAP_MAP_STEP, HEAP_MAP_STEP));
	ASSERT_ERR(heap_map_chunk(map, fd, HEAP_MAX_CHUNKS * HEAP_MAP_STEP, HEAP_MAP_STEP), ENOSPC);
	close(fd);
	heap_map_free(map);
}

/* ---- memory that is not the heap's own ----------------------------------------------------------------------------------- */

TEST(memory_of_another_descriptor_appears_in_one_range_and_leaves_it_reserved)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct heap_map *map = map_of(2, 0);
	int fd = memory_of(1, 2 * CHUNK);
	struct heap_part part = {.local_pe = 1, .fd = fd, .fd_offset = page, .offset = CHUNK, .bytes = 3 * page};
	uint8_t *there = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	ASSERT(there != MAP_FAILED);
	ASSERT_OK(heap_map_part(map, &part));
	*at(map, 1, CHUNK) = 7;
	ASSERT_EQ(there[page], 7);
	ASSERT(is_mapped(at(map, 1, CHUNK), 3 * page, "rw-s"));
	ASSERT(is_mapped(at(map, 1, CHUNK + 3 * page), GIB - CHUNK - 3 * page, "---p"));
	ASSERT(is_mapped(at(map, 0, 0), GIB, "---p"));
	heap_unmap_part(map, 1, CHUNK, CHUNK);
	ASSERT(is_mapped(at(map, 0, 0), 2 * GIB, "---p"));
	fail_calls(1, 1);
	ASSERT_ERR(heap_map_part(map, &part), ENOMEM);
	fail_calls(0, 0);
	ASSERT(is_mapped(at(map, 0, 0), 2 * GIB, "---p"));
	ASSERT_OK(heap_map_part(map, &part));
	munmap(there, 4 * page);
	close(fd);
	heap_map_free(map);
}

TEST(memory_that_is_not_there_or_has_no_place_appears_nowhere)
{
	struct heap_map *map = map_of(2, 0);
	int chunk = memory_of(2, CHUNK), fd = memory_of(1, CHUNK), open_memfd = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const struct heap_part good = {.local_pe = 1, .fd = fd, .offset = CHUNK, .bytes = CHUNK};
	struct heap_part parts[] = {good, good, good, good, good, good, good, good};

	ASSERT_OK(ftruncate(open_memfd, (off_t)CHUNK));
	ASSERT_OK(heap_map_chunk(map, chunk, 0, CHUNK));
	parts[0].local_pe = 2;
	parts[1].fd = open_memfd;
	parts[2].fd = -1;
	parts[3].fd_offset = 65536;
	parts[4].fd_offset = UINT64_MAX - 65535;
	parts[5].offset = CHUNK - HEAP_MAP_STEP;
	parts[6].offset = GIB;
	parts[7].bytes = UINT64_MAX - 4095;
	for (unsigned int i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		ASSERT_ERR(heap_map_part(map, &parts[i]), EINVAL);
	ASSERT(is_mapped(at(map, 1, CHUNK), GIB - CHUNK, "---p"));
	ASSERT(is_mapped(at(map, 1, 0), CHUNK, "rw-s"));
	ASSERT_OK(heap_map_part(map, &good));
	close(chunk);
	close(fd);
	close(open_memfd);
	heap_map_free(map);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed memory, and memory that is moved into it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "libclient/objects.h"
#include "tests/lib/test.h"
#include "tests/unit/client/fake-daemon.h"

#define PAGES 8u
#define PAGE page_bytes()
#define BYTES (PAGES * PAGE)

static void no_request(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	test_fail(TEST_WHERE, "memory needs no daemon, yet it was asked for %s", msg_kind_name(req->kind));
}

static struct fake_daemon fake = {.handle = no_request};
static struct shmd_client *client;

static void open_client(void)
{
	ASSERT_OK(fake_open(&fake, NULL, &client));
}

static void close_client(void)
{
	shmd_client_close(client);
	fake_join(&fake);
}

static uint8_t *map(int prot, int flags, int fd)
{
	uint8_t *p = mmap(NULL, BYTES, prot, flags, fd, 0);

	ASSERT_NE(p, MAP_FAILED);
	return p;
}

static uint8_t *map_pattern(void)
{
	uint8_t *p = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	for (unsigned int i = 0; i < BYTES; i++)
		p[i] = (uint8_t)(i * 7 + i / PAGE);
	memset(p + 2 * PAGE, 0, PAGE); /* a hole */
	return p;
}

static void assert_pattern(const uint8_t *p)
{
	for (unsigned int i = 0; i < BYTES; i++)
		ASSERT_EQ(p[i], i / PAGE == 2 ? 0 : (uint8_t)(i * 7 + i / PAGE));
}

TEST(allocated_memory_is_zero_shared_and_sealed)
{
	struct shmd_mem *mem;
	uint8_t *addr;
	int seals;

	open_client();
	ASSERT_OK(shmd_mem_alloc(client, PAGE + 904, &mem));
	ASSERT_EQ(shmd_mem_bytes(mem), 2 * PAGE);
	addr = shmd_mem_addr(mem);
	for (unsigned int i = 0; i < 2 * PAGE; i++)
		ASSERT_EQ(addr[i], 0);
	seals = fcntl(shmd_mem_fd(mem), F_GET_SEALS);
	ASSERT_EQ(seals & (F_SEAL_SHRINK | F_SEAL_GROW), F_SEAL_SHRINK | F_SEAL_GROW);
	ASSERT_EQ(ftruncate(shmd_mem_fd(mem), 4096), -1);
	ASSERT_EQ(errno, EPERM);
	ASSERT(fcntl(shmd_mem_fd(mem), F_GETFD) & FD_CLOEXEC);
	addr[4096] = 9;
	ASSERT_EQ(pread(shmd_mem_fd(mem), addr, 1, 4096), 1);
	ASSERT_EQ(addr[0], 9);
	shmd_mem_free(mem);
	close_client();
}

TEST(allocating_nothing_or_too_much_is_refused)
{
	struct shmd_mem *mem;

	open_client();
	ASSERT_ERR(shmd_mem_alloc(client, 0, &mem), EINVAL);
	ASSERT_ERR(shmd_mem_alloc(client, SIZE_MAX, &mem), EINVAL);
	ASSERT_ERR(shmd_mem_alloc(client, 4096, NULL), EINVAL);
	close_client();
}

TEST(closing_the_client_frees_its_memory)
{
	struct shmd_mem *mem;

	open_client();
	ASSERT_OK(shmd_mem_alloc(client, BYTES, &mem));
	close_client();
}

TEST(adopted_memory_keeps_address_and_contents)
{
	uint8_t *p = map_pattern(), seen;
	struct shmd_mem *mem;

	open_client();
	ASSERT_OK(shmd_mem_adopt(client, p, BYTES, &mem));
	ASSERT_EQ(shmd_mem_addr(mem), (void *)p);
	ASSERT_EQ(shmd_mem_bytes(mem), BYTES);
	assert_pattern(p);
	p[4097] = 77;
	ASSERT_EQ(pread(shmd_mem_fd(mem), &seen, 1, 4097), 1);
	ASSERT_EQ(seen, 77);
	ASSERT_EQ(ftruncate(shmd_mem_fd(mem), 0), -1);
	/* The mapping outlives the object: it was the caller's before. */
	shmd_mem_free(mem);
	ASSERT_EQ(p[4097], 77);
	p[0] = 1;
	munmap(p, BYTES);
	close_client();
}

TEST(adopting_a_range_of_several_mappings_works)
{
	uint8_t *p = map_pattern();
	struct shmd_mem *mem;

	open_client();
	/* Different advice makes the kernel keep two mappings. */
	ASSERT_OK(madvise(p + 3 * PAGE, 2 * PAGE, MADV_DONTFORK));
	ASSERT_OK(shmd_mem_adopt(client, p, BYTES, &mem));
	assert_pattern(p);
	shmd_mem_free(mem);
	munmap(p, BYTES);
	close_client();
}

TEST(adopting_the_middle_leaves_the_rest_alone)
{
	uint8_t *p = map_pattern();
	struct shmd_mem *mem;

	open_client();
	ASSERT_OK(shmd_mem_adopt(client, p + 3 * PAGE, 2 * PAGE, &mem));
	assert_pattern(p);
	shmd_mem_free(mem);
	assert_pattern(p);
	munmap(p, BYTES);
	close_client();
}

static void assert_refused(uint8_t *p, size_t bytes)
{
	struct shmd_mem *mem = NULL;

	ASSERT_ERR(shmd_mem_adopt(client, p, bytes, &mem), EINVAL);
	ASSERT(!mem);
}

TEST(adopting_refuses_what_is_not_private_anonymous_memory)
{
	uint8_t *p = map_pattern(), *shared, *file, *fixed;
	int fd = fake_memfd(BYTES);

	open_client();
	assert_refused(p + 1, PAGE);
	assert_refused(p, PAGE + 1);
	assert_refused(p, 0);
	assert_refused(NULL, PAGE);
	assert_refused(p, SIZE_MAX - PAGE + 1);

	shared = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	assert_refused(shared, BYTES);
	file = map(PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
	assert_refused(file, BYTES);
	fixed = map(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	assert_refused(fixed, BYTES);
	assert_refused((uint8_t *)((uintptr_t)__builtin_frame_address(0) & ~(PAGE - 1)), PAGE);

	/* A hole in the range, and a page that may not be written. */
	ASSERT_OK(munmap(shared + 2 * PAGE, PAGE));
	ASSERT_OK(mprotect(p + 6 * PAGE, PAGE, PROT_READ));
	assert_refused(p, BYTES);
	assert_refused(shared, BYTES);
	assert_pattern(p);
	munmap(p, BYTES);
	munmap(shared, BYTES);
	munmap(file, BYTES);
	munmap(fixed, BYTES);
	close(fd);
	close_client();
}

TEST(failed_adoption_leaves_the_range_untouched)
{
	struct rlimit none = {0}, before;
	uint8_t *p = map_pattern();
	struct shmd_mem *mem = NULL;

	open_client();
	/* No descriptor can be had: not for /proc/self/maps, not for the memfd. */
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &before));
	none.rlim_max = before.rlim_max;
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &none));
	ASSERT_ERR(shmd_mem_adopt(client, p, BYTES, &mem), EMFILE);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &before));
	ASSERT(!mem);
	assert_pattern(p);
	p[0] = 3;
	/* Still private memory of the caller's, which can be adopted. */
	ASSERT_OK(shmd_mem_adopt(client, p, BYTES, &mem));
	ASSERT_EQ(p[0], 3);
	shmd_mem_free(mem);
	munmap(p, BYTES);
	close_client();
}

TEST(sealing_adds_only_what_is_missing)
{
	int fd = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int sealed = memfd_create("closed", MFD_CLOEXEC);

	ASSERT_OK(mem_seal(fd, F_SEAL_SHRINK));
	ASSERT_EQ(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK);
	ASSERT_OK(mem_seal(fd, F_SEAL_SHRINK));
	/* No more seals may be added here. */
	ASSERT_ERR(mem_seal(sealed, F_SEAL_SHRINK), EPERM);
	ASSERT_LT(mem_seal(STDIN_FILENO, F_SEAL_SHRINK), 0);
	close(fd);
	close(sealed);
}

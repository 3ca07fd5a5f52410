/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libclient/runtime/world/adopt.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"
#include "proto/base/page.h"

struct adopted {
	struct adopted *next;
	uint8_t *addr;
	size_t bytes;
	int fd;
	unsigned int n_users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct adopted *all;

/* The one that has all of the range. */
static struct adopted *find(const uint8_t *addr, size_t bytes)
{
	struct adopted *adopted = all;

	while (adopted && !(addr >= adopted->addr && range_fits((uint64_t)(addr - adopted->addr), bytes, adopted->bytes)))
		adopted = adopted->next;
	return adopted;
}

static int move_in(struct shmd_client *client, void *addr, size_t bytes, struct adopted **ret_adopted)
{
	_cleanup_free_ struct adopted *adopted = calloc(1, sizeof(*adopted));
	struct shmd_mem *mem;
	int r;

	if (!adopted)
		return shmd_error_set(-ENOMEM, "no memory for a buffer");
	r = shmd_mem_adopt(client, addr, bytes, &mem);
	if (r < 0)
		return r;
	/* The memory is there for longer than the session. */
	adopted->fd = fcntl(shmd_mem_fd(mem), F_DUPFD_CLOEXEC, 3);
	r = adopted->fd < 0 ? -errno : 0;
	shmd_mem_free(mem);
	if (r < 0)
		return shmd_error_set(r, "no descriptor for a buffer: %s", strerror(-r));
	adopted->addr = addr;
	adopted->bytes = bytes;
	adopted->next = all;
	*ret_adopted = all = adopted;
	take_ptr(adopted);
	return 0;
}

int adopt(struct shmd_client *client, void *addr, size_t bytes, struct adopted **ret_adopted, int *ret_fd, uint64_t *ret_offset)
{
	struct adopted *adopted;
	int r = 0;

	pthread_mutex_lock(&lock);
	adopted = find(addr, bytes);
	if (!adopted)
		r = move_in(client, addr, bytes, &adopted);
	if (!r) {
		adopted->n_users++;
		*ret_adopted = adopted;
		*ret_fd = adopted->fd;
		*ret_offset = (uint64_t)((uint8_t *)addr - adopted->addr);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static void copy_pages(uint8_t *to, const uint8_t *from, size_t bytes, size_t page)
{
	/* Pages of zeros, which a copy would make real, have a first byte that equals all the others. */
	for (size_t at = 0; at < bytes; at += page)
		if (from[at] || memcmp(from + at, from + at + 1, page - 1))
			memcpy(to + at, from + at, page);
}

/* The copy takes the place of the shared pages at once: the addresses are never without memory. */
static int move_out(const struct adopted *adopted)
{
	void *copy = mmap(NULL, adopted->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r = 0;

	if (copy == MAP_FAILED)
		return shmd_error_set(-errno, "no memory for %zu bytes of a buffer, which stays in a memfd: %s", adopted->bytes, strerror(errno));
	copy_pages(copy, adopted->addr, adopted->bytes, page_bytes());
	if (mremap(copy, adopted->bytes, adopted->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, adopted->addr) == MAP_FAILED) {
		r = shmd_error_set(-errno, "the memory of a buffer stays in a memfd: %s", strerror(errno));
		munmap(copy, adopted->bytes);
	}
	return r;
}

static void forget(struct adopted *adopted)
{
	struct adopted **at = &all;

	while (*at != adopted)
		at = &(*at)->next;
	*at = adopted->next;
	close(adopted->fd);
	free(adopted);
}

static int end_use(struct adopted *adopted, bool moves_out)
{
	int r = 0;

	if (!adopted)
		return 0;
	pthread_mutex_lock(&lock);
	if (--adopted->n_users == 0) {
		if (moves_out)
			r = move_out(adopted);
		forget(adopted);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

int adopted_return(struct adopted *adopted)
{
	return end_use(adopted, true);
}

void adopted_leave(struct adopted *adopted)
{
	(void)end_use(adopted, false);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of pairs: see pair-page.h. No requests, no waiting; any thread.
 */
#include "libclient/pair-page.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "libclient/objects.h"
#include "proto/base/overflow.h"
#include "proto/text.h"

#ifndef HUGETLBFS_MAGIC
#define HUGETLBFS_MAGIC 0x958458f6
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

static bool size_overflows(uint64_t n_qps, uint64_t bytes, uint64_t *ret_size)
{
	uint64_t addrs;

	return mul_overflows(n_qps, sizeof(struct shmd_addr), &addrs) || add_overflows(addrs, bytes, ret_size) ||
	       add_overflows(*ret_size, sizeof(struct pair_page), ret_size);
}

/* Differs between calls of one process, too. */
static uint64_t nonce_new(void)
{
	uint64_t nonce;

	if (getrandom(&nonce, sizeof(nonce), GRND_NONBLOCK) != (ssize_t)sizeof(nonce))
		nonce = nsec_now() ^ ((uint64_t)getpid() << 40);
	return nonce ? nonce : 1;
}

int pair_page_new(unsigned int n_qps, const void *data, size_t bytes, struct pair_page **ret_page, struct pair_entry *ret_entry,
		  int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct pair_page *page;
	uint64_t size;
	int r;

	if (size_overflows(n_qps, bytes, &size))
		return text_fail(-EINVAL, "%u QPs and %zu bytes are too many for a pair", n_qps, bytes);
	fd = mem_fd_new(size);
	if (fd < 0)
		return fd;
	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return text_fail(-errno, "cannot map the page of a pair: %s", strerror(errno));
	r = mem_seal(fd, F_SEAL_FUTURE_WRITE);
	if (r < 0) {
		munmap(page, size);
		return text_fail(r, "cannot seal the page of a pair: %s", strerror(-r));
	}
	if (bytes)
		memcpy(&page->addrs[n_qps], data, bytes);
	*ret_entry = (struct pair_entry){
		.version = PAIR_VERSION, .n_qps = n_qps, .data_bytes = (uint32_t)bytes, .nonce = nonce_new()};
	*ret_page = page;
	*ret_fd = take_fd(&fd);
	return 0;
}

int pair_page_map(const struct pair_entry *entry, int fd, const struct pair_page **ret_page)
{
	const int wanted = F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE;
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;
	uint64_t size;
	void *page;

	if (entry->version != PAIR_VERSION || entry->data_bytes > SHMD_PAIR_DATA_BYTES ||
	    size_overflows(entry->n_qps, entry->data_bytes, &size))
		return -EPROTO;
	/* A file that shrinks would end its reader with SIGBUS. */
	if (seals < 0 || (seals & wanted) != wanted || fstat(fd, &st) < 0 || (uint64_t)st.st_size < size)
		return -EPROTO;
	/* With huge pages munmap() would refuse the size of the entry, and the mapping would stay. */
	if (fstatfs(fd, &fs) < 0 || (uint32_t)fs.f_type == HUGETLBFS_MAGIC)
		return -EPROTO;
	page = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	*ret_page = page;
	return 0;
}

void pair_page_unmap(const struct pair_page *page, unsigned int n_qps, size_t bytes)
{
	uint64_t size;

	if (page && !size_overflows(n_qps, bytes, &size))
		munmap((void *)page, size);
}

const void *pair_page_data(const struct pair_page *page, unsigned int n_qps)
{
	return &page->addrs[n_qps];
}

void pair_page_set(struct pair_page *page, enum pair_state state, const char *why)
{
	if (why)
		text_copy(page->why, sizeof(page->why), why);
	__atomic_store_n(&page->state, state, __ATOMIC_RELEASE);
}

enum pair_state pair_page_state(const struct pair_page *page, char why[252])
{
	uint32_t state = __atomic_load_n(&page->state, __ATOMIC_ACQUIRE);

	if (state != PAIR_GAVE_UP)
		return state == PAIR_CONNECTED ? PAIR_CONNECTED : PAIR_WAITS;
	memcpy(why, page->why, sizeof(page->why));
	why[sizeof(page->why) - 1] = 0;
	text_clean(why, strlen(why));
	return PAIR_GAVE_UP;
}

void pair_page_answer(struct pair_page *page, uint64_t nonce)
{
	__atomic_store_n(&page->answers, nonce, __ATOMIC_RELEASE);
}

uint64_t pair_page_answers(const struct pair_page *page)
{
	return __atomic_load_n(&page->answers, __ATOMIC_ACQUIRE);
}

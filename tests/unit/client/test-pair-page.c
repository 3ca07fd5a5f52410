/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of pairs: what a reader takes from a peer, and what it refuses. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libclient/pair-page.h"
#include "tests/lib/test.h"

TEST(a_peer_reads_what_the_owner_wrote_and_cannot_change_it)
{
	const struct pair_page *peer = NULL;
	struct pair_page *own = NULL;
	struct pair_entry entry;
	char why[sizeof(own->why)];
	int fd = -1;

	ASSERT_OK(pair_page_new(2, "data", 5, &own, &entry, &fd));
	ASSERT_EQ(entry.n_qps, 2);
	ASSERT_EQ(entry.data_bytes, 5);
	ASSERT_OK(pair_page_map(&entry, fd, &peer));
	own->addrs[1].bytes = 7;
	ASSERT_EQ(peer->addrs[1].bytes, 7);
	ASSERT_STREQ((const char *)pair_page_data(peer, 2), "data");
	ASSERT_EQ(pair_page_state(peer, why), PAIR_WAITS);
	pair_page_set(own, PAIR_CONNECTED, NULL);
	ASSERT_EQ(pair_page_state(peer, why), PAIR_CONNECTED);
	ASSERT_EQ(pair_page_answers(peer), 0);
	pair_page_answer(own, UINT64_MAX);
	ASSERT_EQ(pair_page_answers(peer), UINT64_MAX);
	/* The attack: text that a terminal acts on, or that shows itself in another order. */
	pair_page_set(own, PAIR_GAVE_UP, "no\033 r\xc2\x9bo\x9bu\xe2\x80\xaete \xc3\xa9");
	ASSERT_EQ(pair_page_state(peer, why), PAIR_GAVE_UP);
	ASSERT_STREQ(why, "no? r??o?u???te \xc3\xa9");
	ASSERT(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	ASSERT_EQ(write(fd, "x", 1), -1);
	ASSERT_EQ(ftruncate(fd, 0), -1);
	pair_page_unmap(peer, 2, 5);
	pair_page_unmap(own, 2, 5);
	close(fd);
}

TEST(two_calls_have_different_entries)
{
	struct pair_page *pages[2];
	struct pair_entry entries[2];
	int fds[2];

	for (unsigned int i = 0; i < 2; i++)
		ASSERT_OK(pair_page_new(1, NULL, 0, &pages[i], &entries[i], &fds[i]));
	ASSERT_NE(entries[0].nonce, entries[1].nonce);
	for (unsigned int i = 0; i < 2; i++) {
		pair_page_unmap(pages[i], 1, 0);
		close(fds[i]);
	}
}

static int make_fd(size_t bytes, int seals)
{
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_GE(fd, 0);
	ASSERT_OK(ftruncate(fd, (off_t)bytes));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

TEST(a_page_that_is_not_what_its_entry_says_is_refused)
{
	static const struct {
		struct pair_entry entry;
		size_t bytes;
		int seals;
	} wrong[] = {
		{{.version = PAIR_VERSION + 1, .n_qps = 1}, 4096, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE},
		{{.version = PAIR_VERSION, .n_qps = 1}, 4096, F_SEAL_SHRINK},
		{{.version = PAIR_VERSION, .n_qps = 1}, 4096, F_SEAL_FUTURE_WRITE},
		{{.version = PAIR_VERSION, .n_qps = 1}, 300, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE},
		{{.version = PAIR_VERSION, .n_qps = UINT32_MAX}, 4096, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE},
		{{.version = PAIR_VERSION, .n_qps = 1, .data_bytes = 4096}, 4096, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE},
		{{.version = PAIR_VERSION, .n_qps = 1, .data_bytes = SHMD_PAIR_DATA_BYTES + 1}, 1 << 20, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE},
		{{.version = PAIR_VERSION, .n_qps = 1, .data_bytes = UINT32_MAX}, 4096, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE},
	};
	const struct pair_page *page = NULL;
	int pipe_fds[2];

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int fd = make_fd(wrong[i].bytes, wrong[i].seals);

		ASSERT_ERR(pair_page_map(&wrong[i].entry, fd, &page), EPROTO);
		close(fd);
	}
	ASSERT_OK(pipe(pipe_fds));
	ASSERT_ERR(pair_page_map(&(struct pair_entry){.version = PAIR_VERSION, .n_qps = 1}, pipe_fds[0], &page), EPROTO);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

TEST(a_page_of_huge_pages_is_refused)
{
	const struct pair_page *page = NULL;
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

	/* A kernel without huge pages makes no such file for an attacker either. */
	if (fd < 0)
		return;
	ASSERT_OK(ftruncate(fd, 1 << 30));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE));
	ASSERT_ERR(pair_page_map(&(struct pair_entry){.version = PAIR_VERSION, .n_qps = 1}, fd, &page), EPROTO);
	close(fd);
}

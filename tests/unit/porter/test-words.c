/* SPDX-License-Identifier: Apache-2.0 */
/* Health pages, which porters write: the words, a porter that dies before it has written, and no porter at all. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <shmd/abi/doorbell.h>

#include "daemon/porter/words.h"
#include "tests/lib/child.h"
#include "tests/lib/test.h"
#include "porter-lab.h"

struct told {
	unsigned int n;
	bool is_written;
	struct words unwritten;
};

struct page_scene {
	struct scene s;
	struct porter_slot *slot;
	struct told told;
	int sock, peer, fd;
	struct shmd_health_page *page; /* the client's */
};

static void on_told(void *arg, const struct words *unwritten)
{
	struct page_scene *p = arg;

	p->told.n++;
	p->told.is_written = !unwritten;
	if (unwritten)
		p->told.unwritten = *unwritten;
}

static void page_scene_init(struct page_scene *p)
{
	struct porter_slot_attr attr = {.uid = UID, .packet = on_packet, .told = on_told, .arg = p};
	int socks[2];

	memset(p, 0, sizeof(*p));
	scene_init(&p->s);
	p->fd = memfd_create("page", MFD_CLOEXEC);
	ASSERT_OK(ftruncate(p->fd, sizeof(*p->page)));
	p->page = mmap(NULL, sizeof(*p->page), PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
	ASSERT(p->page != MAP_FAILED);
	attr.account = p->s.account;
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	p->sock = socks[0];
	p->peer = socks[1];
	attr.sock = p->sock;
	ASSERT_OK(porter_slot_new(p->s.porters, &attr, &p->slot));
}

static void page_scene_deinit(struct page_scene *p)
{
	close(p->peer);
	munmap(p->page, sizeof(*p->page));
	close(p->fd);
}

static void hear_until_told(struct page_scene *p, unsigned int n)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (p->told.n < n) {
		ASSERT_LT(nsec_now(), end);
		hear(&p->s);
	}
}

static pid_t await_porter(struct page_scene *p)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;
	pid_t pid;

	while ((pid = find_porter()) == 0) {
		ASSERT_LT(nsec_now(), end);
		hear(&p->s);
	}
	return pid;
}

TEST(first_final_word_stays_and_port_down_passes)
{
	struct shmd_health_page page = {0};
	int fd = memfd_create("page", MFD_CLOEXEC);

	ASSERT_EQ(write(fd, &page, sizeof(page)), (ssize_t)sizeof(page));
	ASSERT_OK(words_write(fd, &(struct words){.down = 3, .lost = 4}));
	ASSERT_OK(words_write(fd, &(struct words){.active = 1 | 4 | 8}));
	ASSERT_EQ(pread(fd, &page, sizeof(page), 0), (ssize_t)sizeof(page));
	ASSERT_EQ(page.nic[0], SHMD_HEALTH_OK);
	ASSERT_EQ(page.nic[1], SHMD_HEALTH_PORT_DOWN);
	ASSERT_EQ(page.nic[2], SHMD_HEALTH_NIC_LOST);
	ASSERT_EQ(page.nic[3], SHMD_HEALTH_OK);
	ASSERT_OK(words_write(fd, &(struct words){.has_ended = true}));
	ASSERT_EQ(pread(fd, &page, sizeof(page), 0), (ssize_t)sizeof(page));
	ASSERT_EQ(page.session, SHMD_HEALTH_SESSION_ENDED);
	ASSERT_EQ(page.nic[1], SHMD_HEALTH_SESSION_ENDED);
	ASSERT_EQ(page.nic[2], SHMD_HEALTH_NIC_LOST);
	close(fd);
}

TEST(later_words_replace_earlier_ones_of_the_same_nic)
{
	struct words words = {.down = 1, .active = 2};

	words_prepend(&words, &(struct words){.active = 1 | 4, .down = 2 | 8, .lost = 16, .has_ended = true});
	ASSERT_EQ(words.down, 1u | 8u);
	ASSERT_EQ(words.active, 2u | 4u);
	ASSERT_EQ(words.lost, 16u);
	ASSERT(words.has_ended);
	/* A lost NIC stays lost. */
	words_prepend(&words, &(struct words){.lost = 1 | 2});
	ASSERT_EQ(words.down, 8u);
	ASSERT_EQ(words.active, 4u);
	ASSERT_EQ(words.lost, 19u);
	ASSERT(!words_are_any(&(struct words){0}));
	ASSERT(words_are_any(&(struct words){.active = 1}));
}

TEST_TIMEOUT(porter_writes_the_words_and_reports_it, 60)
{
	struct page_scene p;

	page_scene_init(&p);
	ASSERT_OK(porter_slot_tell(p.slot, p.fd, &(struct words){.down = 1}));
	ASSERT_ERR(porter_slot_tell(p.slot, p.fd, &(struct words){.active = 1}), EBUSY);
	hear_until_told(&p, 1);
	ASSERT(p.told.is_written);
	ASSERT_EQ(p.page->nic[0], SHMD_HEALTH_PORT_DOWN);
	ASSERT_OK(porter_slot_tell(p.slot, p.fd, &(struct words){.has_ended = true}));
	/* Without a loop. */
	porters_await_told(p.s.porters, PATIENCE_NSEC);
	ASSERT_EQ(p.told.n, 2u);
	ASSERT_EQ(p.page->session, SHMD_HEALTH_SESSION_ENDED);
	porter_slot_end(p.slot, p.sock);
	scene_deinit(&p.s);
	page_scene_deinit(&p);
}

/* Nobody is called then. */
TEST_TIMEOUT(words_are_written_although_their_slot_ends, 60)
{
	struct page_scene p;

	page_scene_init(&p);
	ASSERT_OK(porter_slot_tell(p.slot, p.fd, &(struct words){.has_ended = true}));
	porter_slot_end(p.slot, p.sock);
	scene_deinit(&p.s);
	for (int i = 0; i < 10000 && __atomic_load_n(&p.page->session, __ATOMIC_ACQUIRE) == SHMD_HEALTH_OK; i++)
		usleep(1000);
	ASSERT_EQ(p.page->session, SHMD_HEALTH_SESSION_ENDED);
	ASSERT_EQ(p.told.n, 0u);
	page_scene_deinit(&p);
}

TEST_TIMEOUT(next_porter_writes_what_one_that_died_has_not, 60)
{
	struct page_scene p;
	pid_t porter;

	page_scene_init(&p);
	porter = await_porter(&p);
	ASSERT_OK(kill(porter, SIGSTOP));
	ASSERT_OK(porter_slot_tell(p.slot, p.fd, &(struct words){.lost = 1}));
	ASSERT_OK(kill(porter, SIGKILL));
	hear_until_told(&p, 1);
	ASSERT(p.told.is_written);
	ASSERT_EQ(p.s.n_failed, 1u);
	ASSERT_EQ(p.page->nic[0], SHMD_HEALTH_NIC_LOST);
	porter_slot_end(p.slot, p.sock);
	scene_deinit(&p.s);
	page_scene_deinit(&p);
}

TEST_TIMEOUT(without_a_porter_the_words_come_back, 60)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;
	struct page_scene p;
	pid_t porter;

	page_scene_init(&p);
	porter = await_porter(&p);
	ASSERT_OK(kill(child_called(getpid(), "shmemd-zygote"), SIGKILL));
	while (porters_hear_zygote(p.s.porters) == 0)
		ASSERT_LT(nsec_now(), end);
	ASSERT_OK(kill(porter, SIGSTOP));
	ASSERT_OK(porter_slot_tell(p.slot, p.fd, &(struct words){.down = 5}));
	ASSERT_OK(kill(porter, SIGKILL));
	hear_until_told(&p, 1);
	ASSERT(!p.told.is_written);
	ASSERT_EQ(p.told.unwritten.down, 5u);
	ASSERT_ERR(porter_slot_tell(p.slot, p.fd, &p.told.unwritten), EPIPE);
	ASSERT_EQ(p.page->nic[0], SHMD_HEALTH_OK);
	porter_slot_end(p.slot, p.sock);
	porters_free(p.s.porters);
	foreign_account_unref(p.s.account);
	page_scene_deinit(&p);
}

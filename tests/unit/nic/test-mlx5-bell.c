/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that rings for clients: a register is a word of this program, which tells what was rung last. */
#include "daemon/nic/mlx5/mlx5-bell.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <shmd/abi/doorbell.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define PATIENCE_NSEC (10 * NSEC_PER_SEC)
#define QPN 0x1234u
#define OTHER_QPN 0x4321u
#define PAGE_BYTES 65536u /* of any kernel */
#define ALICE 1001u
#define BOB 1002u
#define CAROL 1003u

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

struct lab {
	struct bells own, *bells; /* of the NIC: those or another lab's */
	struct bell_page *page;
	struct nic_doorbell doorbell;
	uint64_t reg; /* the NIC's */
	uint64_t *word; /* the client's mapping of the doorbell page */
	const struct shmd_nic_page *nic_page; /* of the NIC page */
	uint32_t snd[2]; /* of two dbrecs */
};

static int page_new(struct bells *bells, uint32_t uid, uint64_t *reg, struct nic_doorbell *doorbell, struct bell_page **ret_page)
{
	return bell_page_new(bells, &(struct bell_page_attr){.uid = uid, .reg = reg}, doorbell, ret_page);
}

/* A page of this user. */
static void lab_open(struct lab *lab, struct bells *bells, uint32_t uid)
{
	uint8_t *map;

	lab->bells = bells;
	ASSERT_OK(page_new(bells, uid, &lab->reg, &lab->doorbell, &lab->page));
	ASSERT_EQ(lab->doorbell.mode, NIC_DOORBELL_CPU);
	map = mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, lab->doorbell.page_fd, 0);
	ASSERT(map != MAP_FAILED);
	lab->word = (uint64_t *)(void *)(map + lab->doorbell.register_offset);
	lab->nic_page = mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ, MAP_SHARED, lab->doorbell.nic_page_fd, 0);
	ASSERT(lab->nic_page != MAP_FAILED);
	ASSERT_EQ(lab->nic_page->version, SHMD_NIC_PAGE_VERSION);
}

static void lab_init(struct lab *lab, uint32_t spin_usec)
{
	memset(lab, 0, sizeof(*lab));
	bells_init(&lab->own, &(struct bells_attr){.name = "mlx5_0", .gpu_poll_usec = 100, .spin_usec = spin_usec});
	lab_open(lab, &lab->own, ALICE);
}

/* Another page of a lab's NIC. */
static void lab_join(struct lab *lab, struct lab *first, uint32_t uid)
{
	memset(lab, 0, sizeof(*lab));
	lab_open(lab, &first->own, uid);
}

static void lab_deinit(struct lab *lab)
{
	munmap((uint8_t *)lab->word - lab->doorbell.register_offset, SHMD_DB_PAGE_BYTES);
	munmap((void *)lab->nic_page, SHMD_DB_PAGE_BYTES);
	bell_page_free(lab->page);
	if (lab->bells == &lab->own)
		bells_deinit(&lab->own);
}

/* As a client does: dbrec, doorbell, and the wake when the thread sleeps. `wakes`: not a GPU. */
static void post(struct lab *lab, unsigned int i, uint32_t qpn, uint32_t index, bool wakes)
{
	uint64_t one = 1;

	__atomic_store_n(&lab->snd[i], htobe32(index & 0xffff), __ATOMIC_RELEASE);
	__atomic_store_n(lab->word, htobe64((uint64_t)index << 40 | (uint64_t)qpn << 8), __ATOMIC_RELEASE);
	__sync_synchronize();
	if (wakes && __atomic_load_n(&lab->nic_page->asleep, __ATOMIC_RELAXED))
		ASSERT_EQ(write(lab->doorbell.wake_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
}

static uint64_t rung(uint32_t qpn, uint32_t index)
{
	return htobe64((uint64_t)index << 40 | (uint64_t)qpn << 8);
}

static void await_reg(struct lab *lab, uint64_t word)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (__atomic_load_n(&lab->reg, __ATOMIC_ACQUIRE) != word) {
		ASSERT(nsec_now() < end);
		usleep(50);
	}
}

static void await_word_taken(struct lab *lab)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (__atomic_load_n(lab->word, __ATOMIC_ACQUIRE)) {
		ASSERT(nsec_now() < end);
		usleep(50);
	}
}

static void await_asleep(struct lab *lab)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (!__atomic_load_n(&lab->nic_page->asleep, __ATOMIC_ACQUIRE)) {
		ASSERT(nsec_now() < end);
		usleep(50);
	}
}

TEST(a_doorbell_of_a_client_rings_the_register_with_the_index_of_the_dbrec)
{
	struct lab lab;

	lab_init(&lab, 20);
	ASSERT_OK(bell_page_add(lab.page, QPN, &lab.snd[0], false));
	for (uint32_t i = 1; i <= 200; i++) {
		post(&lab, 0, QPN, i, true);
		await_reg(&lab, rung(QPN, i));
	}
	lab_deinit(&lab);
}

TEST(a_sleeping_thread_is_woken_by_the_client_that_rings)
{
	struct lab lab;

	lab_init(&lab, 0);
	ASSERT_OK(bell_page_add(lab.page, QPN, &lab.snd[0], false));
	for (uint32_t i = 1; i <= 20; i++) {
		await_asleep(&lab);
		post(&lab, 0, QPN, i, true);
		await_reg(&lab, rung(QPN, i));
	}
	lab_deinit(&lab);
}

TEST(a_gpu_that_wakes_no_thread_is_served)
{
	struct lab lab;

	lab_init(&lab, 0);
	ASSERT_OK(bell_page_add(lab.page, QPN, &lab.snd[0], true));
	for (uint32_t i = 1; i <= 20; i++) {
		post(&lab, 0, QPN, i, false);
		await_reg(&lab, rung(QPN, i));
	}
	lab_deinit(&lab);
}

/* The word names one QP; the other's doorbell was overwritten before any thread saw it. */
TEST(an_overwritten_doorbell_is_not_lost)
{
	struct lab lab;
	uint64_t seen = 0, end = nsec_now() + PATIENCE_NSEC;

	lab_init(&lab, 0);
	ASSERT_OK(bell_page_add(lab.page, QPN, &lab.snd[0], false));
	ASSERT_OK(bell_page_add(lab.page, OTHER_QPN, &lab.snd[1], false));
	await_asleep(&lab);
	/* Nothing in the word, so no thread looks yet. */
	__atomic_store_n(&lab.snd[1], htobe32(7), __ATOMIC_RELEASE);
	post(&lab, 0, QPN, 5, true);
	/* The named one first, then the other: the register ends with the other. */
	while (seen != rung(OTHER_QPN, 7)) {
		ASSERT(nsec_now() < end);
		seen = __atomic_load_n(&lab.reg, __ATOMIC_ACQUIRE);
		usleep(50);
	}
	lab_deinit(&lab);
}

TEST(a_doorbell_for_a_number_that_is_not_the_pages_rings_nothing)
{
	struct lab lab;

	lab_init(&lab, 20);
	ASSERT_OK(bell_page_add(lab.page, QPN, &lab.snd[0], false));
	ASSERT_EQ(bell_page_add(lab.page, QPN, &lab.snd[1], false), -EEXIST);
	post(&lab, 1, OTHER_QPN, 9, true);
	await_word_taken(&lab);
	bell_page_remove(lab.page, QPN);
	post(&lab, 0, QPN, 9, true);
	await_word_taken(&lab);
	/* Every look that took a word is over before a page goes. */
	bell_page_remove(lab.page, OTHER_QPN);
	ASSERT_EQ(lab.reg, 0);
	lab_deinit(&lab);
}

TEST(after_a_reset_the_same_index_is_rung_again)
{
	struct lab lab;

	lab_init(&lab, 20);
	ASSERT_OK(bell_page_add(lab.page, QPN, &lab.snd[0], false));
	ASSERT_OK(bell_page_add(lab.page, OTHER_QPN, &lab.snd[1], false));
	post(&lab, 1, OTHER_QPN, 3, true);
	await_reg(&lab, rung(OTHER_QPN, 3));
	__atomic_store_n(&lab.reg, 0, __ATOMIC_RELEASE);
	bell_page_reset(lab.page, OTHER_QPN);
	/* Its own doorbell is lost behind one that names no QP. */
	post(&lab, 1, 1, 3, true);
	await_reg(&lab, rung(OTHER_QPN, 3));
	lab_deinit(&lab);
}

/* As after a change of mode: by the page of before, and by the thread. */
TEST(a_client_that_rings_the_register_too_never_has_a_stale_index_last)
{
	const uint32_t n = 20000; /* or as many as fit into a moment */
	uint64_t end = nsec_now() + 400 * NSEC_PER_MSEC;
	struct lab lab;

	lab_init(&lab, 20);
	ASSERT_OK(bell_page_add(lab.page, QPN, &lab.snd[0], false));
	for (uint32_t i = 2; i <= n && nsec_now() < end; i += 2) {
		post(&lab, 0, QPN, i - 1, true);
		/* Before, while or after the thread looks at the dbrec. */
		for (uint32_t k = 0; k < i % 64 && __atomic_load_n(lab.word, __ATOMIC_ACQUIRE); k++)
			;
		__atomic_store_n(&lab.snd[0], htobe32(i & 0xffff), __ATOMIC_RELEASE);
		__atomic_store_n(&lab.reg, rung(QPN, i), __ATOMIC_RELEASE);
		await_word_taken(&lab);
		/* Every look that took a word is over before a QP goes. */
		bell_page_remove(lab.page, OTHER_QPN);
		ASSERT_EQ(__atomic_load_n(&lab.reg, __ATOMIC_ACQUIRE), rung(QPN, i));
	}
	lab_deinit(&lab);
}

TEST(doorbells_that_others_rang_before_the_page_are_not_rung_again)
{
	struct lab lab;

	lab_init(&lab, 20);
	lab.snd[0] = htobe32(5);
	ASSERT_OK(bell_page_add(lab.page, QPN, &lab.snd[0], false));
	ASSERT_OK(bell_page_add(lab.page, OTHER_QPN, &lab.snd[1], false));
	bell_page_catch_up(lab.page);
	post(&lab, 1, OTHER_QPN, 3, true);
	await_word_taken(&lab);
	bell_page_remove(lab.page, QPN);
	ASSERT_EQ(lab.reg, rung(OTHER_QPN, 3));
	lab_deinit(&lab);
}

TEST(a_silenced_page_rings_nothing)
{
	struct lab lab;

	lab_init(&lab, 20);
	ASSERT_OK(bell_page_add(lab.page, QPN, &lab.snd[0], false));
	bell_page_silence(lab.page);
	post(&lab, 0, QPN, 9, true);
	await_asleep(&lab);
	bell_page_remove(lab.page, QPN);
	ASSERT_EQ(lab.reg, 0);
	ASSERT_EQ(*lab.word, rung(QPN, 9));
	lab_deinit(&lab);
}

/* ---- pages of a process of before ---------------------------------------------------------------------------------- */

static int file_of_a_page(void)
{
	char path[] = "/tmp/test-mlx5-bell-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	ASSERT(fd >= 0);
	ASSERT_OK(unlink(path));
	ASSERT_OK(ftruncate(fd, SHMD_DB_PAGE_BYTES));
	return fd;
}

static int memfd_of(uint64_t bytes, int seals)
{
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT(fd >= 0);
	ASSERT_OK(ftruncate(fd, (off_t)bytes));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static void expect_no_page(struct lab *lab, const struct nic_saved_fds *right, unsigned int which, int fd)
{
	struct nic_saved_fds saved = *right;
	const struct bell_page_attr attr = {.uid = ALICE, .reg = &lab->reg, .saved = &saved};
	struct nic_doorbell doorbell;
	struct bell_page *page;

	saved.fds[which] = fd;
	ASSERT_ERR(bell_page_new(lab->bells, &attr, &doorbell, &page), EBADF);
}

/* A page that a client can cut off would end the process that goes on with it. */
TEST(page_that_may_shrink_is_refused)
{
	int fds[] = {file_of_a_page(), memfd_of(SHMD_DB_PAGE_BYTES, F_SEAL_GROW), memfd_of(2 * SHMD_DB_PAGE_BYTES, F_SEAL_SHRINK), -1};
	struct nic_saved_fds saved;
	struct lab lab;

	lab_init(&lab, 20);
	bell_page_saved_fds(lab.page, &saved);
	ASSERT_EQ(saved.n, (unsigned int)MLX5_SAVED_FDS);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		expect_no_page(&lab, &saved, MLX5_SAVED_NIC_PAGE, fds[i]);
		expect_no_page(&lab, &saved, MLX5_SAVED_PAGE, fds[i]);
		safe_close(fds[i]);
	}
	lab_deinit(&lab);
}

/* ---- many at once ---------------------------------------------------------------------------------------------------- */

struct life {
	struct bells *bells;
	uint32_t uid;
	uint64_t reg;
};

/* A context that comes and goes while another one rings. */
static void *live(void *arg)
{
	struct life *life = arg;
	uint32_t snd = 0;

	for (int i = 0; i < 50; i++) {
		struct nic_doorbell doorbell;
		struct bell_page *page;

		ASSERT_OK(page_new(life->bells, life->uid, &life->reg, &doorbell, &page));
		for (uint32_t q = 1; q <= 8; q++)
			ASSERT_OK(bell_page_add(page, q, &snd, q % 2));
		bell_page_free(page);
	}
	return NULL;
}

static void expect_rings_beside(uint32_t uid)
{
	struct life life = {.uid = uid};
	pthread_t thread;
	struct lab lab;

	lab_init(&lab, 20);
	life.bells = lab.bells;
	ASSERT_OK(bell_page_add(lab.page, QPN, &lab.snd[0], false));
	ASSERT_EQ(pthread_create(&thread, NULL, live, &life), 0);
	for (uint32_t i = 1; i <= 2000; i++)
		post(&lab, 0, QPN, i, true);
	ASSERT_EQ(pthread_join(thread, NULL), 0);
	await_reg(&lab, rung(QPN, 2000));
	ASSERT_EQ(life.reg, 0);
	lab_deinit(&lab);
}

TEST(contexts_come_and_go_while_others_ring)
{
	expect_rings_beside(ALICE);
	expect_rings_beside(BOB);
}

/* ---- users ------------------------------------------------------------------------------------------------------------ */

static uint64_t inode_of(int fd)
{
	struct stat st;

	ASSERT_OK(fstat(fd, &st));
	return st.st_ino;
}

static uint64_t page_of(const struct lab *lab)
{
	return inode_of(lab->doorbell.nic_page_fd);
}

TEST(pages_of_one_user_have_one_thread_and_those_of_others_have_their_own)
{
	struct lab alice, again, bob;
	uint64_t first;

	lab_init(&alice, 20);
	lab_join(&again, &alice, ALICE);
	lab_join(&bob, &alice, BOB);
	first = page_of(&alice);
	ASSERT_EQ(page_of(&again), first);
	ASSERT(page_of(&bob) != first);
	ASSERT_EQ(alice.own.n, 2u);
	lab_deinit(&bob);
	ASSERT_EQ(alice.own.n, 1u);
	lab_deinit(&again);
	lab_deinit(&alice);
}

TEST(a_nic_rings_for_a_limited_number_of_users)
{
	struct bell_page *pages[BELLS_MAX], *page;
	struct nic_doorbell doorbell;
	struct bells bells;
	uint64_t reg = 0;

	bells_init(&bells, &(struct bells_attr){.name = "mlx5_0", .gpu_poll_usec = 100, .spin_usec = 20});
	for (uint32_t i = 0; i < BELLS_MAX; i++)
		ASSERT_OK(page_new(&bells, ALICE + i, &reg, &doorbell, &pages[i]));
	ASSERT_ERR(page_new(&bells, ALICE + BELLS_MAX, &reg, &doorbell, &page), EUSERS);
	ASSERT_OK(page_new(&bells, ALICE, &reg, &doorbell, &page));
	bell_page_free(page);
	bell_page_free(pages[7]);
	ASSERT_OK(page_new(&bells, ALICE + BELLS_MAX, &reg, &doorbell, &pages[7]));
	for (uint32_t i = 0; i < BELLS_MAX; i++)
		bell_page_free(pages[i]);
	bells_deinit(&bells);
}

/* A daemon with one thread for all users has left pages of two: they keep it, and new pages of both go elsewhere. */
TEST(pages_of_two_users_with_one_nic_page_stay_together_and_new_ones_do_not_join_them)
{
	struct lab former, alice, bob;
	struct nic_doorbell doorbell[2];
	struct nic_saved_fds saved;
	struct bell_page *pages[2];
	struct bells bells;

	lab_init(&former, 20);
	bell_page_saved_fds(former.page, &saved);
	bells_init(&bells, &former.own.attr);
	for (uint32_t i = 0; i < 2; i++) {
		const struct bell_page_attr attr = {.uid = i ? BOB : ALICE, .reg = &former.reg, .saved = &saved};

		ASSERT_OK(bell_page_new(&bells, &attr, &doorbell[i], &pages[i]));
		ASSERT_EQ(inode_of(doorbell[i].nic_page_fd), page_of(&former));
	}
	ASSERT_EQ(bells.n, 1u);
	memset(&alice, 0, sizeof(alice));
	memset(&bob, 0, sizeof(bob));
	lab_open(&alice, &bells, ALICE);
	lab_open(&bob, &bells, BOB);
	ASSERT_EQ(bells.n, 3u);
	lab_deinit(&bob);
	lab_deinit(&alice);
	bell_page_free(pages[1]);
	bell_page_free(pages[0]);
	bells_deinit(&bells);
	lab_deinit(&former);
}

/* Memory at whose first page a thread sleeps until fill() or the end of `fd`. */
struct sleepy {
	int fd;
	uint8_t *base;
};

static void sleepy_init(struct sleepy *sleepy)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};

	sleepy->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (sleepy->fd < 0)
		test_skip("this kernel gives no userfaultfd to this user");
	ASSERT_OK(ioctl(sleepy->fd, UFFDIO_API, &api));
	sleepy->base = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(sleepy->base != MAP_FAILED);
	reg.range.start = (uintptr_t)sleepy->base;
	reg.range.len = PAGE_BYTES;
	ASSERT_OK(ioctl(sleepy->fd, UFFDIO_REGISTER, &reg));
}

static void await_sleeper(const struct sleepy *sleepy)
{
	struct uffd_msg msg;

	ASSERT_EQ(read(sleepy->fd, &msg, sizeof(msg)), (ssize_t)sizeof(msg));
	ASSERT_EQ(msg.event, (unsigned int)UFFD_EVENT_PAGEFAULT);
}

static void fill(const struct sleepy *sleepy)
{
	struct uffdio_zeropage zero = {.range = {.start = (uintptr_t)sleepy->base, .len = PAGE_BYTES}};

	ASSERT_OK(ioctl(sleepy->fd, UFFDIO_ZEROPAGE, &zero));
}

static void sleepy_deinit(struct sleepy *sleepy)
{
	munmap(sleepy->base, PAGE_BYTES);
	safe_close(sleepy->fd);
}

/* Contexts of others come, ring and go meanwhile. */
TEST(a_thread_that_sleeps_at_one_users_memory_rings_for_others)
{
	struct lab alice, bob, carol;
	struct sleepy sleepy;

	sleepy_init(&sleepy);
	lab_init(&alice, 20);
	lab_join(&bob, &alice, BOB);
	ASSERT_OK(bell_page_add(bob.page, QPN, &bob.snd[0], false));
	ASSERT_OK(bell_page_add(alice.page, QPN, (uint32_t *)(void *)sleepy.base, false));
	__atomic_store_n(alice.word, htobe64((uint64_t)QPN << 8), __ATOMIC_RELEASE);
	ASSERT_EQ(write(alice.doorbell.wake_fd, &(uint64_t){1}, 8), 8);
	await_sleeper(&sleepy);
	for (uint32_t i = 1; i <= 100; i++) {
		post(&bob, 0, QPN, i, true);
		await_reg(&bob, rung(QPN, i));
	}
	lab_join(&carol, &alice, CAROL);
	ASSERT_OK(bell_page_add(carol.page, QPN, &carol.snd[0], false));
	post(&carol, 0, QPN, 1, true);
	await_reg(&carol, rung(QPN, 1));
	lab_deinit(&carol);
	lab_deinit(&bob);
	fill(&sleepy);
	lab_deinit(&alice);
	sleepy_deinit(&sleepy);
}

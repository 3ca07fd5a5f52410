/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that are saved with a session: which may be, and that the daemon takes back none but the session's own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/later.h"
#include "tests/lib/test.h"
#include "tests/unit/session/save-lab.h"

/* A client with a context. */
struct scene {
	struct save_lab k;
	struct pair a;
	uint64_t id;
};

static void scene_init(struct scene *s)
{
	s->k.blocks = false;
	save_lab_init(&s->k, 100);
	save_lab_hello(&s->a, &s->k);
	s->id = s->a.session->id;
	raw_open_nic(&s->a.raw, "fake0");
}

static void restart(struct scene *s)
{
	struct pair *pairs[] = {&s->a};

	save_lab_restart(&s->k, pairs, 1);
}

static void scene_deinit(struct scene *s)
{
	pair_deinit(&s->a);
	save_lab_deinit(&s->k);
}

/* ---- what is found again ------------------------------------------------------------------------------------------- */

/* Another descriptor under the name: `fd` is the store's from here on. */
static void exchange(struct scene *s, const char *name, int fd)
{
	unsigned int i = 0;

	while (i < s->k.n && strcmp(s->k.kept[i].name, name) != 0)
		i++;
	ASSERT_LT(i, s->k.n);
	ASSERT_GE(fd, 0);
	close(s->k.kept[i].fd);
	s->k.kept[i].fd = fd;
}

/* One end, of what a client connects with or not; the other is the test's. */
static int one_of_pair(int type, int *ret_other)
{
	int socks[2];

	ASSERT_OK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, socks));
	*ret_other = socks[1];
	return socks[0];
}

static void scene_end(struct scene *s)
{
	save_lab_let_go(&s->k, s->id);
	lab_assert_empty(&s->k.lab);
	raw_close(&s->a.raw);
	save_lab_deinit(&s->k);
}

static void refuse_exchanged(const char *name, int fd, bool client_is_told)
{
	struct shmd_health_page *page;
	struct session *session;
	struct scene s;

	scene_init(&s);
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, s.a.session->health_fd, 0);
	ASSERT_NE(page, MAP_FAILED);
	restart(&s);
	exchange(&s, name, fd);
	ASSERT_ERR(save_lab_adopt(&s.k, s.id, &session), EBADF);
	if (client_is_told)
		raw_expect_end(&s.a.raw, SHMD_STATUS_INTERNAL);
	ASSERT_NE(page->session, SHMD_HEALTH_OK);
	munmap(page, sizeof(*page));
	scene_end(&s);
}

/* A session's socket is a connection of its own client's. The daemon writes to nothing else, and to no other client's. */
TEST(socket_that_is_not_the_sessions_is_refused)
{
	int other, stranger;
	char byte;

	refuse_exchanged("s1-sock", one_of_pair(SOCK_STREAM, &other), false);
	ASSERT_EQ(recv(other, &byte, 1, 0), 0);
	close(other);
	refuse_exchanged("s1-sock", one_of_pair(SOCK_DGRAM, &other), false);
	ASSERT_EQ(recv(other, &byte, 1, MSG_DONTWAIT), -1);
	close(other);
	refuse_exchanged("s1-sock", raw_memfd(4096), false);
	/* Not connected. */
	stranger = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	refuse_exchanged("s1-sock", stranger, false);
}

TEST(socket_of_another_user_is_refused)
{
	struct session *session;
	struct scene s;
	char byte;

	scene_init(&s);
	restart(&s);
	save_lab_peer_uid = 4242;
	ASSERT_ERR(save_lab_adopt(&s.k, s.id, &session), EBADF);
	/* The peer hears nothing of the session, and no process holds the socket any more. */
	later_wait();
	ASSERT_EQ(recv(s.a.raw.sock, &byte, 1, MSG_DONTWAIT), 0);
	scene_end(&s);
}

static int pidfd_of(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		test_skip("this kernel has no pidfd");
	return fd;
}

TEST(pidfd_of_another_process_is_refused)
{
	refuse_exchanged("s1-pid", pidfd_of(getppid()), true);
	refuse_exchanged("s1-pid", raw_memfd(4096), true);
	refuse_exchanged("s1-pid", eventfd(0, EFD_CLOEXEC), true);
}

/* Its number is gone with it, and it is torn down as any other that died. */
TEST(session_of_a_process_that_has_died_is_taken_over)
{
	struct scene s;
	pid_t pid = fork();
	int fd;

	ASSERT_GE(pid, 0);
	if (pid == 0)
		_exit(0);
	fd = pidfd_of(pid);
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
	scene_init(&s);
	restart(&s);
	exchange(&s, "s1-pid", fd);
	ASSERT_OK(save_lab_adopt(&s.k, s.id, &s.a.session));
	s.a.session->owner = &s.a;
	scene_deinit(&s);
}

/* ---- what is published --------------------------------------------------------------------------------------------- */

static void publish(struct pair *pair, uint32_t slot, int fd)
{
	struct msg req, rep;

	msg_init(&req, MSG_PUBLISH_REQ, 0);
	req.publish_req.key.slot = slot;
	req.publish_req.has_fd = true;
	raw_expect(&pair->raw, &req, &fd, 1, MSG_OK_REP, &rep);
}

/* The process that keeps a descriptor closes it too, and a service manager must not wait for what a client made. */
TEST(session_that_publishes_what_may_wait_when_closed_is_not_saved)
{
	int fds[] = {-1, -1, eventfd(0, EFD_CLOEXEC), socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	struct msg req, rep;
	struct scene s;

	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	for (unsigned int i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		scene_init(&s);
		ASSERT(session_is_saved(s.a.session));
		publish(&s.a, 3, fds[i]);
		ASSERT(!session_is_saved(s.a.session));
		ASSERT(strstr(s.a.session->saved.reason, "it has published something else than a memfd"));
		ASSERT_EQ(save_lab_count(&s.k), 0);
		msg_init(&req, MSG_FETCH_REQ, 0);
		req.fetch_req.slot = 3;
		raw_expect(&s.a.raw, &req, NULL, 0, MSG_FETCH_REP, &rep);
		ASSERT(rep.fetch_rep.has_fd);
		scene_deinit(&s);
		safe_close(fds[i]);
	}
}

TEST(session_that_publishes_memfds_is_saved)
{
	struct scene s;

	scene_init(&s);
	for (unsigned int i = 0; i < 4; i++) {
		int fd = raw_memfd(4096);

		publish(&s.a, 3 + i, fd);
		close(fd);
	}
	ASSERT(session_is_saved(s.a.session));
	ASSERT(save_lab_has(&s.k, "s1-p4"));
	scene_deinit(&s);
}

/* Each has a socket of its own to watch, and one process holds them all. */
TEST(hello_that_is_said_without_end_ends_the_session)
{
	struct msg req, msg;
	struct fdlist fds;
	struct scene s;
	int r = 0;

	s.k.blocks = false;
	save_lab_init(&s.k, 100);
	save_lab_hello(&s.a, &s.k);
	s.id = s.a.session->id;
	restart(&s);
	ASSERT_OK(save_lab_adopt_bytes(&s.k, s.id, s.k.first_state, s.k.first_bytes, &s.a.session));
	s.a.session->owner = &s.a;
	for (int i = 0; i < 200 && !s.a.session->ended; i++) {
		msg_init(&req, MSG_HELLO_REQ, 0);
		req.hello_req = (struct msg_hello_req){
			.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT, .resumes = true};
		s.a.raw.last_id--;
		raw_send(&s.a.raw, &req, NULL, 0);
		fdlist_init(&fds);
		r = raw_recv(&s.a.raw, &msg, &fds);
		fdlist_deinit(&fds);
	}
	ASSERT_OK(r);
	ASSERT(s.a.session->ended);
	pair_deinit(&s.a);
	save_lab_deinit(&s.k);
}

static unsigned int count_fds(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The fake's first saved descriptor is its page's, as the command descriptor of a NIC in hardware is. */
TEST(change_to_mode_cpu_gives_the_porter_no_second_command_descriptor)
{
	unsigned int n_fds, n_charged;
	struct scene s = {.k.blocks = false};
	struct msg req, rep;

	save_lab_init_porters(&s.k, 100);
	s.k.lab.nics[0].has_uar = s.k.lab.nics[0].base.blocks = true;
	save_lab_hello(&s.a, &s.k);
	n_fds = count_fds();
	n_charged = (unsigned int)s.k.lab.registry.quota.total.n[QUOTA_FDS];
	raw_open_nic(&s.a.raw, "fake0");
	/* The page, what the store has, and the copy for porters; charged is the most that it may have. */
	ASSERT_EQ(count_fds(), n_fds + 3);
	ASSERT_EQ(s.k.lab.registry.quota.total.n[QUOTA_FDS], n_charged + 5);
	msg_init(&req, MSG_NIC_DOORBELL_REQ, 0);
	req.nic_doorbell_req.doorbell = NIC_DOORBELL_CPU;
	snprintf(req.nic_doorbell_req.reason, sizeof(req.nic_doorbell_req.reason), "mmap: Permission denied");
	raw_expect(&s.a.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	ASSERT_EQ(rep.nic_open_rep.doorbell, NIC_DOORBELL_CPU);
	ASSERT_EQ(count_fds(), n_fds + 3);
	scene_deinit(&s);
}

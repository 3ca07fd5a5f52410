/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that a daemon finds at its start and cannot take over: nothing of them is left, and clients and the log get the reason. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/restart/resume.h"
#include "daemon/restart/state.h"
#include "tests/unit/session/save-lab.h"
#include "tests/unit/session/lab.h"
#include "tests/lib/test.h"

#define MAX_FDS 100u

/* A daemon with NICs, under a manager that hears and does nothing. */
struct scene {
	struct lab lab;
	struct manager_store *store;
	bool blocks, stalls; /* NICs do: to set before start() */
	unsigned int n_runs; /* works that such NICs wanted a worker for */
	uint64_t most_nsec; /* that NICs wait */
	unsigned int n_begun; /* imports under way at once */
	bool holds_first; /* the first of them ends when the test says so */
	struct work *held;
	char path[64];
	int manager;
	unsigned int n_strange, n_adopted; /* lines with these events */
	unsigned int n_warnings;
	unsigned int room; /* before */
	struct resume_result result;
};

static struct scene *the_scene; /* of this process */

static void on_note(void *arg, const struct note *note)
{
	struct scene *s = arg;

	s->n_strange += note->event == CATALOG_STATE_STRANGE;
	s->n_adopted += note->event == CATALOG_ADOPTED;
	s->n_warnings += note->level == 4;
}

static void make_manager(struct scene *s)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	snprintf(s->path, sizeof(s->path), "/tmp/shmemd-adopt-XXXXXX");
	ASSERT(mkdtemp(s->path));
	rmdir(s->path);
	memcpy(addr.sun_path, s->path, strlen(s->path));
	s->manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_OK(bind(s->manager, (struct sockaddr *)&addr, sizeof(addr)));
	setenv("NOTIFY_SOCKET", s->path, 1);
	setenv("FDSTORE", "100", 1);
}

static bool on_run(void *arg, struct work *work)
{
	struct scene *s = arg;

	s->n_runs++;
	work->run(work);
	return true;
}

static int attach(void *arg, struct session *session)
{
	return 0;
}

/* Workers, of which the one that began first is done last. */
static void on_wait(void *arg, uint64_t nsec)
{
	struct list *todo = &the_scene->lab.todo, *at;
	unsigned int n = 0;
	struct list last_first;

	list_init(&last_first);
	while (!list_empty(todo)) {
		at = todo->next;
		list_del(at);
		list_add_head(&last_first, at);
		n++;
	}
	if (n > the_scene->n_begun)
		the_scene->n_begun = n;
	if (n > 0 && the_scene->holds_first && !the_scene->held) {
		the_scene->held = container_of(last_first.prev, struct work, link);
		list_del(&the_scene->held->link);
		the_scene->held->run(the_scene->held);
	}
	list_splice_tail(todo, &last_first);
	lab_work(&the_scene->lab);
	usleep(1000);
}

static void start(struct scene *s, bool has_store)
{
	struct resume_attr now = {
		.registry = &s->lab.registry, .attach = attach, .wait = on_wait, .most_nsec = s->most_nsec};

	the_scene = s;
	if (s->blocks)
		lab_init_blocking(&s->lab, 100);
	else
		lab_init(&s->lab, 100);
	for (int i = 0; i < 2; i++)
		s->lab.nics[i].saves = true;
	make_manager(s);
	if (has_store)
		ASSERT_OK(manager_store_new(MAX_FDS, &s->store));
	s->room = manager_store_room(s->store);
	s->lab.registry.attr.save = s->store ? &save_ops : NULL;
	s->lab.registry.attr.store = &resume_store;
	s->lab.registry.attr.store_arg = s->store;
	s->lab.registry.attr.hooks.note = on_note;
	s->lab.registry.attr.hooks.arg = s;
	s->lab.registry.attr.hooks.run = on_run;
	s->lab.registry.stalls = s->stalls;
	now.store = s->store;
	ASSERT_OK(resume_all(&now, &s->result));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(s->lab.nics[i].n_resumes, 1);
	if (!s->blocks)
		lab_assert_empty(&s->lab);
}

static void stop(struct scene *s)
{
	lab_deinit(&s->lab);
	manager_store_free(s->store);
	close(s->manager);
	unlink(s->path);
}

/* body() as a daemon that finds these descriptors under these names. */
static void as_daemon(const int *fds, unsigned int n, const char *names, void (*body)(void))
{
	pid_t pid = fork();
	char text[16];
	int status;

	ASSERT_GE(pid, 0);
	if (pid == 0) {
		int above[16];

		for (unsigned int i = 0; i < n; i++)
			above[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 100);
		for (unsigned int i = 0; i < n; i++)
			close(fds[i]);
		for (unsigned int i = 0; i < n; i++)
			if (dup2(above[i], 3 + (int)i) < 0)
				_exit(1);
		for (unsigned int i = 0; i < n; i++)
			close(above[i]);
		snprintf(text, sizeof(text), "%d", (int)getpid());
		setenv("LISTEN_PID", text, 1);
		snprintf(text, sizeof(text), "%u", n);
		setenv("LISTEN_FDS", text, 1);
		setenv("LISTEN_FDNAMES", names, 1);
		body();
		_exit(0);
	}
	for (unsigned int i = 0; i < n; i++)
		close(fds[i]);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
}

static int state_of_version(uint32_t version)
{
	struct state *state;
	int fd;

	ASSERT_OK(state_new(&state));
	ASSERT_OK(state_write_version(state, version, "whatever", 8));
	fd = fcntl(state_fd(state), F_DUPFD_CLOEXEC, 3);
	state_free(state);
	return fd;
}

/* Both ends close on exec; ret_client is the test's. */
static int socket_of_client(int *ret_client)
{
	int socks[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	*ret_client = socks[1];
	return socks[0];
}

static void find_another_version(void)
{
	static struct scene s;

	start(&s, true);
	ASSERT_EQ(s.result.n_strange, 2);
	ASSERT_EQ(s.result.n_ended, 0);
	ASSERT_EQ(s.result.n_resumed, 0);
	ASSERT_EQ(s.result.n_strays, 0);
	/* One line for all of them. */
	ASSERT_EQ(s.n_strange, 1);
	ASSERT_EQ(s.n_adopted, 0);
	/* From now on only the daemon's own state is saved: one of six. */
	ASSERT_EQ(manager_store_room(s.store), s.room + 5);
	stop(&s);
}

TEST(all_of_another_version_goes_with_one_line)
{
	int clients[2];
	const int fds[] = {state_of_version(STATE_VERSION + 1), socket_of_client(&clients[0]),
			   state_of_version(STATE_VERSION + 1), socket_of_client(&clients[1]),
			   state_of_version(STATE_VERSION + 1), raw_memfd(4096)};

	as_daemon(fds, 6, "s1-state:s1-sock:s2f-state:s2f-sock:node-state:s1-m1", find_another_version);
	for (int i = 0; i < 2; i++) {
		struct raw_client raw = {.sock = clients[i]};
		struct msg msg;

		ASSERT_OK(raw_recv(&raw, &msg, NULL));
		ASSERT_EQ(msg.kind, MSG_EVENT);
		ASSERT_EQ(msg.event.kind, MSG_EVENT_SESSION_END);
		ASSERT(strstr(msg.event.text, "another version"));
		ASSERT_LT(raw_recv(&raw, &msg, NULL), 0);
		close(clients[i]);
	}
}

static void find_nonsense(void)
{
	static struct scene s;

	start(&s, true);
	ASSERT_EQ(s.result.n_strange, 0);
	ASSERT_EQ(s.result.n_ended, 2);
	/* A socket without a state. */
	ASSERT_EQ(s.result.n_strays, 1);
	ASSERT_EQ(s.n_adopted, 1);
	ASSERT_EQ(s.n_warnings, 2);
	ASSERT_EQ(manager_store_room(s.store), s.room + 5);
	ASSERT_EQ(s.lab.registry.last_id, 0);
	stop(&s);
}

static void expect_end(int client)
{
	struct raw_client raw = {.sock = client};
	struct msg msg;

	ASSERT_OK(raw_recv(&raw, &msg, NULL));
	ASSERT_EQ(msg.kind, MSG_EVENT);
	ASSERT_EQ(msg.event.kind, MSG_EVENT_SESSION_END);
}

/* The first state is without a session, and the second is not a state. */
TEST(states_that_say_nothing_end_their_sessions)
{
	int clients[3];
	const int fds[] = {state_of_version(STATE_VERSION), socket_of_client(&clients[0]), raw_memfd(65536),
			   socket_of_client(&clients[1]), socket_of_client(&clients[2]), raw_memfd(64)};

	as_daemon(fds, 6, "s1-state:s1-sock:s3-state:s3-sock:s4-sock:node-state", find_nonsense);
	/* Both clients whose states were found get the reason. */
	expect_end(clients[0]);
	expect_end(clients[1]);
	for (int i = 0; i < 3; i++)
		close(clients[i]);
}

static int note_put(void *arg, const char *name, int fd)
{
	int *kept = arg;

	ASSERT_STREQ(name, SAVE_REGISTRY);
	*kept = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return *kept < 0 ? -errno : 0;
}

static void note_remove(void *arg, const char *name)
{
}

/* Left by a daemon that was killed after it had closed and counted this session's contexts. */
static int node_state_that_counted(uint64_t session)
{
	struct save_store ops = resume_store;
	static struct lab lab;
	int fd = -1;

	ops.put = note_put;
	ops.remove = note_remove;
	lab_init(&lab, 100);
	lab.registry.attr.save = &save_ops;
	lab.registry.attr.store = &ops;
	lab.registry.attr.store_arg = &fd;
	lab.registry.counted = lab.registry.last_id = session;
	registry_save(&lab.registry);
	lab_deinit(&lab);
	ASSERT_GE(fd, 0);
	return fd;
}

static void find_counted(void)
{
	static struct scene s;

	start(&s, true);
	ASSERT_EQ(s.result.n_ended, 1);
	ASSERT_EQ(s.result.n_resumed + s.result.n_strange + s.result.n_strays, 0);
	/* Its state was not even read. */
	ASSERT_EQ(s.n_warnings, 0);
	ASSERT_EQ(manager_store_room(s.store), s.room + 2);
	ASSERT_EQ(s.lab.registry.last_id, 5);
	stop(&s);
}

TEST(session_that_was_counted_at_its_end_is_not_taken_over)
{
	char byte;
	int client;
	const int fds[] = {node_state_that_counted(5), state_of_version(STATE_VERSION), socket_of_client(&client)};

	as_daemon(fds, 3, "node-state:s5-state:s5-sock", find_counted);
	ASSERT_EQ(recv(client, &byte, 1, 0), 0);
	close(client);
}

static void find_ended(void)
{
	static struct scene s = {.blocks = true};

	start(&s, true);
	ASSERT_EQ(s.result.n_ended, 1);
	ASSERT_EQ(s.result.n_resumed + s.result.n_strange + s.result.n_strays, 0);
	/* The NIC still has it: it waits for a worker. */
	ASSERT_EQ(s.lab.nics[0].n_ctxs, 1);
	ASSERT(!list_empty(&s.lab.registry.sessions));
	lab_work(&s.lab);
	lab_assert_empty(&s.lab);
	stop(&s);
}

/* All that is saved, but what has `without` in its name, as the next daemon finds it. */
static void take_over(struct save_lab *k, const char *without, void (*body)(void))
{
	static char names[32 * SAVE_NAME_BYTES];
	unsigned int n = 0;
	int fds[32];

	ASSERT_LE(k->n, 32);
	names[0] = '\0';
	for (unsigned int i = 0; i < k->n; i++) {
		if (without && strstr(k->kept[i].name, without))
			continue;
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", n ? ":" : "", k->kept[i].name);
		fds[n++] = fcntl(k->kept[i].fd, F_DUPFD_CLOEXEC, 3);
	}
	ASSERT(!without || n < k->n);
	as_daemon(fds, n, names, body);
}

static void open_kept(struct save_lab *k, struct pair *pair)
{
	save_lab_hello(pair, k);
	raw_open_nic(&pair->raw, "fake0");
}

TEST(session_that_had_ended_does_not_hold_the_start_up)
{
	struct save_lab k = {.blocks = false};
	struct pair pair, *pairs[] = {&pair};

	save_lab_init(&k, 100);
	open_kept(&k, &pair);
	session_end(pair.session, SHMD_STATUS_KILLED, "a test ended it");
	save_lab_restart(&k, pairs, 1);
	take_over(&k, NULL, find_ended);
	save_lab_let_go(&k, 1);
	raw_close(&pair.raw);
	save_lab_deinit(&k);
}

static void find_incomplete(void)
{
	static struct scene s = {.stalls = true};

	start(&s, true);
	ASSERT_EQ(s.result.n_ended, 1);
	ASSERT_GT(s.n_runs, 0);
	lab_assert_empty(&s.lab);
	stop(&s);
}

/* Its client may have punched a hole into its health page. */
TEST(worker_ends_a_session_that_an_import_gives_up)
{
	struct save_lab k = {.blocks = false};
	struct pair pair, *pairs[] = {&pair};

	save_lab_init(&k, 100);
	open_kept(&k, &pair);
	save_lab_restart(&k, pairs, 1);
	take_over(&k, "-c", find_incomplete); /* without its context */
	save_lab_let_go(&k, 1);
	raw_expect_end(&pair.raw, SHMD_STATUS_INTERNAL);
	raw_close(&pair.raw);
	save_lab_deinit(&k);
}

/* ---- several at once ------------------------------------------------------------------------------------------------ */

static void try_two(void (*body)(void), enum shmd_status first_end)
{
	struct save_lab k = {.blocks = false};
	struct pair first, second, *pairs[] = {&first, &second};

	save_lab_init(&k, 100);
	open_kept(&k, &first);
	open_kept(&k, &second);
	save_lab_restart(&k, pairs, 2);
	take_over(&k, NULL, body);
	if (first_end)
		raw_expect_end(&first.raw, first_end);
	save_lab_let_go(&k, 1);
	save_lab_let_go(&k, 2);
	raw_close(&first.raw);
	raw_close(&second.raw);
	save_lab_deinit(&k);
}

static void end_all(struct scene *s)
{
	struct session *session, *tmp;

	list_for_each_entry_safe(session, tmp, &s->lab.registry.sessions, link)
		session_release(session);
	lab_work(&s->lab);
	ASSERT(list_empty(&s->lab.registry.sessions));
	ASSERT_EQ(s->lab.nics[0].n_ctxs, 0);
	/* Descriptors that its clients have not read are charged, so the lab is not empty. */
	unlink(s->path);
}

static void find_two(void)
{
	static struct scene s = {.blocks = true};

	start(&s, true);
	ASSERT_EQ(s.n_begun, 2);
	ASSERT_EQ(s.result.n_resumed, 2);
	/* By rising number all the same. */
	ASSERT_EQ(list_first_entry(&s.lab.registry.sessions, struct session, link)->id, 1);
	ASSERT_EQ(s.lab.registry.last_id, 2);
	end_all(&s);
}

TEST(imports_wait_for_each_other_at_the_end_alone)
{
	try_two(find_two, SHMD_STATUS_OK);
}

static void find_one_in_time(void)
{
	static struct scene s = {.blocks = true, .holds_first = true, .most_nsec = 20000000};
	struct session *second;

	start(&s, true);
	ASSERT_EQ(s.result.n_resumed, 1);
	ASSERT_EQ(s.result.n_ended, 1);
	ASSERT_EQ(s.n_warnings, 1);
	second = list_first_entry(&s.lab.registry.sessions, struct session, link);
	ASSERT_EQ(second->id, 2);
	/* The other one is there after all, and ends. */
	ASSERT_EQ(s.lab.nics[0].n_ctxs, 2);
	s.held->done(s.held);
	lab_work(&s.lab);
	ASSERT_EQ(s.lab.nics[0].n_ctxs, 1);
	ASSERT_EQ(list_first_entry(&s.lab.registry.sessions, struct session, link), second);
	ASSERT(!second->ended);
	end_all(&s);
}

TEST(session_whose_import_takes_too_long_ends_and_the_others_go_on)
{
	try_two(find_one_in_time, SHMD_STATUS_SHUTDOWN);
}

TEST(nics_go_on_if_nothing_is_saved)
{
	struct scene s = {0};

	start(&s, false);
	ASSERT_EQ(s.result.n_resumed + s.result.n_ended + s.result.n_strange + s.result.n_strays, 0);
	ASSERT_EQ(s.n_adopted + s.n_strange, 0);
	stop(&s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service manager for one daemon, with systemd's rules for kept descriptors: fd-keeper FOLDER MAX ACTIVATED PROGRAM [ARG...]
 *
 * Keeps what the daemon sends with FDSTORE=1: an open file once, MAX of them, the rest is dropped without a word; what
 * hangs up is let go of unless FDPOLL=0 came with it. Starts the daemon anew whenever it ends. ACTIVATED: path of a socket
 * that it makes, or "". The daemon's output goes to FOLDER/log. FOLDER/control takes one command a connection, a packet, and
 * answers with one when it is done:
 *
 *	kill		SIGKILL, and the next one is ready; its pid
 *	restart		SIGTERM likewise, as systemctl restart
 *	hold		SIGKILL, and none is started before "go"
 *	go		start; its pid
 *	stop		SIGTERM, and let go of everything, as systemctl stop; the wait status
 *	wait N		until the N-th start is ready; its pid
 *	starts		how many there were
 *	env NAME=VALUE	for the next start only
 *	list		names of what is kept, one a line
 *
 * SHMEMD_FAULT of its own environment is for the first start. "failed" is the answer when a daemon gives up at its start.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_KEPT 16384u
#define NAME_BYTES 256
#define TEXT_BYTES (1 << 18)
#define FDS_PER_MESSAGE 64
#define MOST_DEATHS 20 /* in a row, before one was ready */

struct kept {
	int fd;
	bool watched; /* let go of when it hangs up */
	char name[NAME_BYTES];
};

static struct {
	const char *folder;
	char **argv;
	int notify, control, activated; /* activated -1: none */
	char notify_path[108];
	unsigned int max;
	pid_t pid; /* 0: none runs */
	int pidfd;
	bool ready, failed, want; /* want: one shall run */
	int status; /* of the last */
	unsigned int n_starts, n_deaths;
	char env[NAME_BYTES];
	unsigned int n;
	struct kept kept[MOST_KEPT];
} keeper;

static void __attribute__((noreturn)) die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

/* ---- what is kept ----------------------------------------------------------------------------------------------- */

static void let_go(unsigned int i)
{
	close(keeper.kept[i].fd);
	memmove(&keeper.kept[i], &keeper.kept[i + 1], (keeper.n - i - 1) * sizeof(keeper.kept[0]));
	keeper.n--;
}

static bool is_kept(int fd)
{
	for (unsigned int i = 0; i < keeper.n; i++)
		if (syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, fd, keeper.kept[i].fd) == 0)
			return true;
	return false;
}

static void keep(int fd, const char *name, bool watched)
{
	struct kept *kept = &keeper.kept[keeper.n];

	if (keeper.n >= keeper.max || is_kept(fd)) {
		close(fd);
		return;
	}
	*kept = (struct kept){.fd = fd, .watched = watched};
	snprintf(kept->name, sizeof(kept->name), "%s", name[0] ? name : "stored");
	keeper.n++;
}

static void let_go_named(const char *name)
{
	for (unsigned int i = keeper.n; i-- > 0;)
		if (strcmp(keeper.kept[i].name, name) == 0)
			let_go(i);
}

static void let_go_all(void)
{
	while (keeper.n > 0)
		let_go(keeper.n - 1);
}

static void look_at_kept(void)
{
	for (unsigned int i = keeper.n; i-- > 0;) {
		struct pollfd pfd = {.fd = keeper.kept[i].fd};

		if (keeper.kept[i].watched && poll(&pfd, 1, 0) > 0)
			let_go(i);
	}
}

/* ---- what the daemon says --------------------------------------------------------------------------------------- */

struct told {
	char text[4096];
	int fds[FDS_PER_MESSAGE];
	unsigned int n_fds;
	pid_t pid;
};

static bool has_line(const struct told *told, const char *line)
{
	size_t bytes = strlen(line);

	for (const char *at = told->text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, line, bytes) == 0 && (at[bytes] == '\n' || !at[bytes]))
			return true;
	}
	return false;
}

static void name_in(const struct told *told, char *name, size_t size)
{
	const char *at = strstr(told->text, "FDNAME=");

	snprintf(name, size, "%.*s", at ? (int)strcspn(at + 7, "\n") : 0, at ? at + 7 : "");
}

static void read_control(struct msghdr *hdr, struct told *told)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c; c = CMSG_NXTHDR(hdr, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			told->n_fds = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(told->fds, CMSG_DATA(c), told->n_fds * sizeof(int));
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred cred;

			memcpy(&cred, CMSG_DATA(c), sizeof(cred));
			told->pid = cred.pid;
		}
	}
}

static bool hear(struct told *told)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(told->fds)) + CMSG_SPACE(sizeof(struct ucred))];
	struct iovec iov = {.iov_base = told->text, .iov_len = sizeof(told->text) - 1};
	struct msghdr hdr = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(keeper.notify, &hdr, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	told->n_fds = 0;
	told->pid = 0;
	if (n < 0)
		return false;
	told->text[n] = 0;
	read_control(&hdr, told);
	return true;
}

static void obey(struct told *told)
{
	char name[NAME_BYTES];
	unsigned int taken = 0;

	name_in(told, name, sizeof(name));
	/* The keeper listens to the daemon alone. */
	if (told->pid == keeper.pid) {
		if (has_line(told, "READY=1"))
			keeper.ready = true;
		if (has_line(told, "FDSTOREREMOVE=1"))
			let_go_named(name);
		else if (has_line(told, "FDSTORE=1"))
			for (; taken < told->n_fds; taken++)
				keep(told->fds[taken], name, !has_line(told, "FDPOLL=0"));
	}
	for (; taken < told->n_fds; taken++)
		close(told->fds[taken]);
}

static void hear_all(void)
{
	static struct told told;

	while (hear(&told))
		obey(&told);
}

/* ---- the daemon ------------------------------------------------------------------------------------------------- */

/* In the child: descriptors from 3 on in the order of their names, above all that is open and then down. */
static void place_fds(const int *fds, unsigned int n)
{
	int *above = calloc(n + 1, sizeof(*above));

	for (unsigned int i = 0; i < n; i++)
		above[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3 + (int)n);
	for (unsigned int i = 0; i < n; i++)
		if (dup2(above[i], 3 + (int)i) < 0)
			_exit(126);
}

static void set_number(const char *key, long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", value);
	setenv(key, text, 1);
}

static void pass_kept(void)
{
	static int fds[MOST_KEPT + 1];
	static char names[TEXT_BYTES];
	unsigned int n = 0;
	size_t at = 0;

	if (keeper.activated >= 0) {
		fds[n++] = keeper.activated;
		at += (size_t)snprintf(names, sizeof(names), "shmemd.socket");
	}
	for (unsigned int i = 0; i < keeper.n; i++) {
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", n ? ":" : "", keeper.kept[i].name);
		fds[n++] = keeper.kept[i].fd;
	}
	place_fds(fds, n);
	if (n == 0)
		return;
	set_number("LISTEN_PID", getpid());
	set_number("LISTEN_FDS", n);
	setenv("LISTEN_FDNAMES", names, 1);
}

static void __attribute__((noreturn)) become_daemon(void)
{
	char path[128];
	int log;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "%s/log", keeper.folder);
	log = open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
		_exit(126);
	setenv("NOTIFY_SOCKET", keeper.notify_path, 1);
	set_number("FDSTORE", keeper.max);
	if (keeper.env[0])
		putenv(keeper.env);
	pass_kept();
	execv(keeper.argv[0], keeper.argv);
	_exit(127);
}

static void start(void)
{
	keeper.ready = false;
	keeper.n_starts++;
	keeper.pid = fork();
	if (keeper.pid < 0)
		die("fork");
	if (keeper.pid == 0)
		become_daemon();
	keeper.pidfd = (int)syscall(SYS_pidfd_open, keeper.pid, 0);
	if (keeper.pidfd < 0)
		die("pidfd_open");
	keeper.env[0] = 0;
	unsetenv("SHMEMD_FAULT");
}

/* Its messages before its death count. */
static void bury(void)
{
	bool was_ready;

	hear_all();
	was_ready = keeper.ready;
	waitpid(keeper.pid, &keeper.status, 0);
	close(keeper.pidfd);
	keeper.pid = 0;
	keeper.ready = false;
	keeper.n_deaths = was_ready ? 0 : keeper.n_deaths + 1;
	if (!was_ready && (WIFEXITED(keeper.status) || keeper.n_deaths >= MOST_DEATHS)) {
		keeper.failed = true;
		keeper.want = false;
		let_go_all();
	}
}

/* One step: something was heard, or happened, or half a second is over. */
static void pump(bool with_control)
{
	struct pollfd pfds[3] = {{.fd = keeper.notify, .events = POLLIN},
				 {.fd = keeper.pid ? keeper.pidfd : -1, .events = POLLIN},
				 {.fd = with_control ? keeper.control : -1, .events = POLLIN}};

	if (!keeper.pid && keeper.want)
		start();
	pfds[1].fd = keeper.pid ? keeper.pidfd : -1;
	if (poll(pfds, 3, 500) < 0 && errno != EINTR)
		die("poll");
	hear_all();
	look_at_kept();
	if (pfds[1].revents)
		bury();
}

/* ---- commands --------------------------------------------------------------------------------------------------- */

static void end_daemon(int sig)
{
	pid_t pid = keeper.pid;

	if (!pid)
		return;
	kill(pid, sig);
	while (keeper.pid == pid)
		pump(false);
}

static void wait_start(unsigned int number)
{
	while (!keeper.failed && !(keeper.ready && keeper.n_starts >= number))
		pump(false);
}

static void say_pid(char *reply, size_t size)
{
	if (keeper.failed)
		snprintf(reply, size, "failed");
	else
		snprintf(reply, size, "%d", keeper.pid);
}

static void end_and_start(int sig, char *reply, size_t size)
{
	unsigned int next = keeper.n_starts + 1;

	end_daemon(sig);
	wait_start(next);
	say_pid(reply, size);
}

static void say_names(char *reply, size_t size)
{
	size_t at = 0;

	reply[0] = 0;
	for (unsigned int i = 0; i < keeper.n && at < size; i++)
		at += (size_t)snprintf(reply + at, size - at, "%s\n", keeper.kept[i].name);
}

static void stop(char *reply, size_t size)
{
	keeper.want = false;
	keeper.status = 0;
	end_daemon(SIGTERM);
	let_go_all();
	snprintf(reply, size, "%d", keeper.status);
}

static void obey_command(const char *text, char *reply, size_t size)
{
	unsigned int number;

	snprintf(reply, size, "ok");
	if (strcmp(text, "kill") == 0) {
		end_and_start(SIGKILL, reply, size);
	} else if (strcmp(text, "restart") == 0) {
		end_and_start(SIGTERM, reply, size);
	} else if (strcmp(text, "hold") == 0) {
		keeper.want = false;
		end_daemon(SIGKILL);
	} else if (strcmp(text, "go") == 0) {
		keeper.want = true;
		keeper.failed = false;
		wait_start(keeper.n_starts + !keeper.pid);
		say_pid(reply, size);
	} else if (strcmp(text, "stop") == 0) {
		stop(reply, size);
	} else if (sscanf(text, "wait %u", &number) == 1) {
		wait_start(number);
		say_pid(reply, size);
	} else if (strcmp(text, "starts") == 0) {
		snprintf(reply, size, "%u", keeper.n_starts);
	} else if (strncmp(text, "env ", 4) == 0) {
		snprintf(keeper.env, sizeof(keeper.env), "%.*s", NAME_BYTES - 5, text + 4);
	} else if (strcmp(text, "list") == 0) {
		say_names(reply, size);
	} else {
		snprintf(reply, size, "unknown command");
	}
}

static void serve_one(void)
{
	static char text[NAME_BYTES], reply[TEXT_BYTES];
	int sock = accept4(keeper.control, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct pollfd pfd = {.fd = sock, .events = POLLIN};
	ssize_t n;

	if (sock < 0)
		return;
	n = poll(&pfd, 1, 10000) > 0 ? recv(sock, text, sizeof(text) - 1, 0) : 0;
	if (n > 0) {
		text[n] = 0;
		obey_command(text, reply, sizeof(reply));
		if (send(sock, reply, strlen(reply) + 1, MSG_NOSIGNAL) < 0)
			perror("fd-keeper: reply");
	}
	close(sock);
}

static int bind_at(int type, const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || (type != SOCK_DGRAM && listen(fd, 256) < 0))
		die(path);
	return fd;
}

static void make_sockets(const char *activated)
{
	const int on = 1;
	char path[108];

	snprintf(keeper.notify_path, sizeof(keeper.notify_path), "%s/notify", keeper.folder);
	snprintf(path, sizeof(path), "%s/control", keeper.folder);
	keeper.notify = bind_at(SOCK_DGRAM, keeper.notify_path);
	if (setsockopt(keeper.notify, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		die("SO_PASSCRED");
	keeper.activated = activated[0] ? bind_at(SOCK_SEQPACKET, activated) : -1;
	keeper.control = bind_at(SOCK_SEQPACKET, path);
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fprintf(stderr, "usage: fd-keeper FOLDER MAX ACTIVATED PROGRAM [ARG...]\n");
		return 2;
	}
	keeper.folder = argv[1];
	keeper.max = (unsigned int)strtoul(argv[2], NULL, 10);
	if (keeper.max > MOST_KEPT)
		keeper.max = MOST_KEPT;
	keeper.argv = argv + 4;
	keeper.want = true;
	make_sockets(argv[3]);
	for (;;) {
		pump(true);
		serve_one();
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A FUSE server of one file, in a user namespace of its own, so that no rights are needed.
 *
 * The server is a process that is killed before anything else is let go of: with its descriptor of /dev/fuse all who wait for
 * an answer are let go. It kills itself too, since a test that waits would not.
 */
#include "tests/system/mute-file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/fdlist.h"
#include "proto/framing.h"
#include "tests/lib/test.h"

#define ROOT_NODE 1u
#define FILE_NODE 2u
#define SERVER_SEC 120u
#define FILE_BYTES 4096u

struct mute_file_state {
	bool is_mute; /* atomic, as is: */
	unsigned int n_asked;
};

/* ---- the server -------------------------------------------------------------------------------------------------- */

static void answer(int fuse, uint64_t unique, int err, const void *body, size_t bytes)
{
	struct fuse_out_header header = {.len = (uint32_t)(sizeof(header) + bytes), .error = err, .unique = unique};
	char packet[sizeof(header) + FILE_BYTES];

	memcpy(packet, &header, sizeof(header));
	if (bytes > 0)
		memcpy(packet + sizeof(header), body, bytes);
	/* The process that asked may be gone. */
	if (write(fuse, packet, header.len) < 0 && errno != ENOENT)
		_exit(1);
}

static struct fuse_attr attr_of(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node, .size = FILE_BYTES, .mode = node == ROOT_NODE ? S_IFDIR | 0777 : S_IFREG | 0666, .nlink = 1};
}

static bool keep_silent(const struct fuse_in_header *in, struct mute_file_state *state)
{
	if (!__atomic_load_n(&state->is_mute, __ATOMIC_ACQUIRE) || in->nodeid != FILE_NODE)
		return false;
	__atomic_fetch_add(&state->n_asked, 1, __ATOMIC_ACQ_REL);
	return true;
}

static void answer_getattr(int fuse, const struct fuse_in_header *in, struct mute_file_state *state)
{
	const struct fuse_attr_out out = {.attr = attr_of(in->nodeid)};

	if (!keep_silent(in, state))
		answer(fuse, in->unique, 0, &out, sizeof(out));
}

static void answer_read(int fuse, const struct fuse_in_header *in, struct mute_file_state *state)
{
	static const char zeros[FILE_BYTES];

	if (!keep_silent(in, state))
		answer(fuse, in->unique, 0, zeros, sizeof(zeros));
}

/* Mapping what was opened so throws away the pages in memory, and waits for one that is being read. */
static void answer_open(int fuse, const struct fuse_in_header *in, const struct fuse_open_in *ask)
{
	const struct fuse_open_out opened = {.fh = 1, .open_flags = ask->flags & O_DSYNC ? FOPEN_DIRECT_IO : 0};

	answer(fuse, in->unique, 0, &opened, sizeof(opened));
}

static void serve_one(int fuse, const struct fuse_in_header *in, struct mute_file_state *state)
{
	const struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 65536};
	const struct fuse_entry_out entry = {.nodeid = FILE_NODE, .generation = 1, .attr = attr_of(FILE_NODE)};

	switch (in->opcode) {
	case FUSE_INIT:
		answer(fuse, in->unique, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		answer(fuse, in->unique, 0, &entry, sizeof(entry));
		break;
	case FUSE_GETATTR:
		answer_getattr(fuse, in, state);
		break;
	case FUSE_OPEN:
		answer_open(fuse, in, (const struct fuse_open_in *)(in + 1));
		break;
	case FUSE_READ:
		answer_read(fuse, in, state);
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		answer(fuse, in->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		answer(fuse, in->unique, -ENOSYS, NULL, 0);
	}
}

static void serve(int fuse, struct mute_file_state *state)
{
	static _Alignas(uint64_t) char packet[1 << 18];
	for (;;) {
		ssize_t n = read(fuse, packet, sizeof(packet));

		if (n < 0 && (errno == EINTR || errno == ENOENT))
			continue;
		if (n < (ssize_t)sizeof(struct fuse_in_header))
			_exit(0);
		serve_one(fuse, (const struct fuse_in_header *)packet, state);
	}
}

/* ---- mounting ---------------------------------------------------------------------------------------------------- */

static bool put_text(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* Root of a namespace with no other user. */
static bool enter_namespace(void)
{
	unsigned int uid = getuid(), gid = getgid();
	char map[32];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (!put_text("/proc/self/setgroups", "deny") || !put_text("/proc/self/uid_map", map))
		return false;
	snprintf(map, sizeof(map), "0 %u 1", gid);
	return put_text("/proc/self/gid_map", map) && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static int mount_fuse(const char *folder)
{
	_cleanup_close_ int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[96];

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	if (fuse < 0 || mount("mute", folder, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
		return -1;
	return take_fd(&fuse);
}

/* Opens it and hands it over, while the server answers. */
static void open_and_send(const char *folder, int sock)
{
	char path[80];
	int fds[2];

	snprintf(path, sizeof(path), "%s/file", folder);
	fds[0] = open(path, O_RDWR | O_CLOEXEC);
	fds[1] = open(path, O_RDWR | O_DSYNC | O_CLOEXEC);
	_exit(fds[0] < 0 || fds[1] < 0 || framing_send(sock, "f", 1, fds, 2) < 0);
}

static void run_server(const struct mute_file *file, int sock)
{
	int fuse;

	signal(SIGALRM, SIG_DFL);
	alarm(SERVER_SEC);
	fuse = enter_namespace() ? mount_fuse(file->folder) : -1;
	/* A namespace of one's own ends what was set before. */
	if (fuse < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		_exit(0);
	if (fork() == 0) {
		close(fuse);
		open_and_send(file->folder, sock);
	}
	close(sock);
	serve(fuse, file->state);
}

/* Other descriptors belong to the test, which may want to close the last copy. */
static int keep_only(int sock)
{
	int kept = dup2(sock, STDERR_FILENO + 1);

	syscall(SYS_close_range, kept + 1, ~0u, 0);
	return kept;
}

/* ---- the test's side --------------------------------------------------------------------------------------------- */

static bool receive_files(int sock, struct mute_file *file)
{
	static char packet[FRAMING_MAX_PACKET_BYTES];
	struct fdlist fds;
	size_t bytes;

	fdlist_init(&fds);
	if (framing_recv(sock, packet, sizeof(packet), &bytes, &fds) < 0 || fds.n != 2)
		return false;
	file->fd = fdlist_take(&fds, 0);
	file->direct_fd = fdlist_take(&fds, 1);
	return true;
}

bool mute_file_try_open(struct mute_file *file)
{
	int socks[2];
	bool opened;

	*file = (struct mute_file){.fd = -1, .direct_fd = -1};
	test_make_folder(file->folder, sizeof(file->folder), "mute");
	file->state = mmap(NULL, sizeof(*file->state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(file->state != MAP_FAILED);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	file->server = fork();
	ASSERT_GE(file->server, 0);
	if (file->server == 0) {
		run_server(file, keep_only(socks[1]));
	}
	close(socks[1]);
	opened = receive_files(socks[0], file);
	close(socks[0]);
	if (!opened)
		mute_file_close(file);
	return opened;
}

void mute_file_open(struct mute_file *file)
{
	if (!mute_file_try_open(file))
		test_skip("no FUSE in a user namespace here");
}

void mute_file_mute(struct mute_file *file)
{
	__atomic_store_n(&file->state->is_mute, true, __ATOMIC_RELEASE);
}

unsigned int mute_file_n_asked(const struct mute_file *file)
{
	return __atomic_load_n(&file->state->n_asked, __ATOMIC_ACQUIRE);
}

void mute_file_close(struct mute_file *file)
{
	kill(file->server, SIGKILL);
	waitpid(file->server, NULL, 0);
	safe_close(file->fd);
	safe_close(file->direct_fd);
	munmap(file->state, sizeof(*file->state));
	rmdir(file->folder);
}

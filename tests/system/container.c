/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/container.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define ORDINARY_ID 54321u /* free on a usual machine */
#define ROOT_BYTES "mode=0755,size=256m"
#define NAMESPACES                                                                                \
	(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

/* Exit status of the child where namespaces are forbidden. */
#define FORBIDDEN 77

uid_t container_uid(void)
{
	return geteuid() ? geteuid() : ORDINARY_ID;
}

gid_t container_gid(void)
{
	return geteuid() ? getegid() : ORDINARY_ID;
}

struct found {
	const char **files;
	unsigned int n, max;
};

/* By the names they were asked for; the program itself and the kernel's object have none. */
static int add_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	static char names[CONTAINER_FILES][CONTAINER_PATH_BYTES];
	struct found *found = arg;
	char *name = names[found->n];

	if (info->dlpi_name[0] != '/' || found->n == found->max || found->n == CONTAINER_FILES)
		return 0;
	snprintf(name, CONTAINER_PATH_BYTES, "%s", info->dlpi_name);
	found->files[found->n++] = name;
	return 0;
}

unsigned int container_libraries(const char **files, unsigned int max)
{
	struct found found = {.files = files, .max = max};

	dl_iterate_phdr(add_library, &found);
	ASSERT_LT(found.n, max);
	return found.n;
}

/* ---- in the child: the root ----------------------------------------------------------------------------------- */

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	ASSERT_GE(fd, 0);
	ASSERT_EQ(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* Root in there is this user, and no other user exists. */
static void map_user(uid_t uid, gid_t gid)
{
	char text[64];

	write_text("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "0 %u 1", uid);
	write_text("/proc/self/uid_map", text);
	snprintf(text, sizeof(text), "0 %u 1", gid);
	write_text("/proc/self/gid_map", text);
}

/* Every folder on the way to `path`. */
static void make_folders(const char *path)
{
	char copy[CONTAINER_PATH_BYTES];

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(copy, 0755) < 0)
			ASSERT_EQ(errno, EEXIST);
		*slash = '/';
	}
}

static int make_file(const char *root, const char *path)
{
	char inside[CONTAINER_PATH_BYTES];
	int fd;

	snprintf(inside, sizeof(inside), "%s%s", root, path);
	make_folders(inside);
	fd = open(inside, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0755);
	ASSERT_GE(fd, 0);
	return fd;
}

static void copy_file(const char *root, const char *path, int from)
{
	struct stat st;
	off_t done = 0;
	int to = make_file(root, path);

	ASSERT_OK(fstat(from, &st));
	while (done < st.st_size)
		ASSERT_GT(sendfile(to, from, &done, (size_t)(st.st_size - done)), 0);
	close(to);
}

static void bind_socket(const char *root, const char *path)
{
	char inside[CONTAINER_PATH_BYTES];

	close(make_file(root, CONTAINER_SOCKET));
	snprintf(inside, sizeof(inside), "%s" CONTAINER_SOCKET, root);
	ASSERT_OK(mount(path, inside, NULL, MS_BIND, NULL));
}

/* `root` is a folder that all users may enter; files are open already, since their folders may be closed to this user. */
static void enter_root(const char *root, const struct container_attr *attr, const int *fds)
{
	ASSERT_OK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_OK(mount("root", root, "tmpfs", MS_NOSUID | MS_NODEV, ROOT_BYTES));
	for (unsigned int i = 0; attr->files[i]; i++)
		copy_file(root, attr->files[i], fds[i]);
	bind_socket(root, attr->socket);
	ASSERT_OK(chdir(root));
	ASSERT_OK(syscall(SYS_pivot_root, ".", "."));
	ASSERT_OK(umount2(".", MNT_DETACH));
	ASSERT_OK(chdir("/"));
	ASSERT_OK(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL));
}

/* Not even what root of a user namespace gets back by an exec. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};

	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		ASSERT_OK(prctl(PR_CAPBSET_DROP, cap, 0, 0, 0));
	ASSERT_OK(syscall(SYS_capset, &header, none));
	ASSERT_OK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

/* ---- in the child: processes ---------------------------------------------------------------------------------- */

static void become_ordinary(const struct container *container)
{
	if (geteuid() != 0)
		return;
	ASSERT_OK(setgroups(0, NULL));
	ASSERT_OK(setresgid(container->gid, container->gid, container->gid));
	ASSERT_OK(setresuid(container->uid, container->uid, container->uid));
	/* Otherwise /proc/self, and with it the map of the namespace, would stay root's. */
	ASSERT_OK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}

static void __attribute__((noreturn)) run_init(const struct container_attr *attr)
{
	drop_capabilities();
	_exit(attr->main(attr->arg));
}

/* Makes the namespaces, tells init's pid, and takes over its exit status. */
static void __attribute__((noreturn))
run_container(const struct container *container, const struct container_attr *attr, const char *root, int tell)
{
	int fds[CONTAINER_FILES], status;
	pid_t init;

	for (unsigned int i = 0; attr->files[i]; i++) {
		fds[i] = open(attr->files[i], O_RDONLY | O_CLOEXEC);
		ASSERT_GE(fds[i], 0);
	}
	become_ordinary(container);
	if (unshare(NAMESPACES) < 0)
		_exit(errno == EPERM || errno == ENOSPC || errno == ENOSYS ? FORBIDDEN : 1);
	map_user(container->uid, container->gid);
	/* Not before: another identity, and the capabilities of the namespace, make the kernel forget it. */
	ASSERT_OK(prctl(PR_SET_PDEATHSIG, SIGKILL));
	enter_root(root, attr, fds);
	init = fork();
	if (init == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(tell);
		run_init(attr);
	}
	ASSERT_EQ(write(tell, &init, sizeof(init)), sizeof(init));
	/* Nothing of the test stays open because of this process. */
	ASSERT_OK(syscall(SYS_close_range, 3u, ~0u, 0u));
	ASSERT_EQ(waitpid(init, &status, 0), init);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void container_start(struct container *container, const struct container_attr *attr)
{
	char root[] = "/tmp/shmemd-root-XXXXXX";
	int tell[2], status;

	ASSERT(mkdtemp(root));
	ASSERT_OK(chmod(root, 0755));
	ASSERT_OK(pipe2(tell, O_CLOEXEC));
	*container = (struct container){.uid = container_uid(), .gid = container_gid()};
	/* The user mounts on it, and has to own it for that. */
	ASSERT_OK(chown(root, container->uid, container->gid));
	container->pid = fork();
	ASSERT_GE(container->pid, 0);
	if (container->pid == 0) {
		close(tell[0]);
		run_container(container, attr, root, tell[1]);
	}
	close(tell[1]);
	if (read(tell[0], &container->init, sizeof(container->init)) != sizeof(container->init)) {
		ASSERT_EQ(waitpid(container->pid, &status, 0), container->pid);
		rmdir(root);
		if (WIFEXITED(status) && WEXITSTATUS(status) == FORBIDDEN)
			test_skip("no user namespaces may be made here");
		test_fail(TEST_WHERE, "the container did not start, wait status 0x%x", status);
	}
	close(tell[0]);
	/* It is busy in no namespace but theirs. */
	ASSERT_OK(rmdir(root));
}

int container_wait(struct container *container)
{
	int status;

	ASSERT_EQ(waitpid(container->pid, &status, 0), container->pid);
	container->pid = 0;
	ASSERT(WIFEXITED(status));
	return WEXITSTATUS(status) > 128 ? 128 - WEXITSTATUS(status) : WEXITSTATUS(status);
}

void container_kill(struct container *container)
{
	ASSERT_OK(kill(container->init, SIGKILL));
	ASSERT_EQ(container_wait(container), -SIGKILL);
}

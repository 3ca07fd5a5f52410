/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The preloaded library: what a program sees of a simulated ConnectX.
 *
 * Paths of the RDMA classes lead into the simulator's tree, opening a uverbs device connects to the simulator, and
 * ioctl and mmap of such a descriptor are calls to it (call.c). NETLINK_RDMA is refused, so that libibverbs reads sysfs
 * and no real device is listed. Everything else passes through. dup, SCM_RIGHTS, fork and close are the kernel's own.
 *
 * A live mapping of a device keeps it open, as on hardware: a hidden duplicate of the descriptor lives until munmap.
 */
#include "tests/mlx5sim/shim/shim.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define RDMA_MAGIC 0x1bu
#define MAX_MAPPINGS 4096

struct mapping {
	char *at;
	size_t bytes;
	int fd;
};

static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping mappings[MAX_MAPPINGS];
static unsigned int n_mappings;

/* The function of this name that would run without us. */
#define NEXT(name)                                                                                 \
	({                                                                                         \
		static __typeof__(&name) next_;                                                    \
		if (!next_)                                                                        \
			next_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                        \
		next_;                                                                             \
	})

/* ---- open ------------------------------------------------------------------------------------------------------ */

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	char buf[PATH_MAX];
	int nic = shim_nic_of(path), fd;

	if (nic >= 0 && !(flags & (O_DIRECTORY | O_PATH))) {
		if (syscall(SYS_faccessat, AT_FDCWD, shim_path(path, buf, sizeof(buf)), F_OK) < 0)
			return -1;
		fd = shim_connect(nic, flags);
		if (fd >= 0)
			return fd;
		errno = -fd;
		return -1;
	}
	return (int)syscall(SYS_openat, dir, shim_path(path, buf, sizeof(buf)), flags, mode);
}

#define OPEN_WITH_MODE(dir, path, flags)                                                           \
	({                                                                                         \
		mode_t mode_ = 0;                                                                  \
		if ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE) {                         \
			va_list args_;                                                             \
			va_start(args_, flags);                                                    \
			mode_ = va_arg(args_, mode_t);                                             \
			va_end(args_);                                                             \
		}                                                                                  \
		open_at(dir, path, flags, mode_);                                                  \
	})

SHIM_API int open(const char *path, int flags, ...)
{
	return OPEN_WITH_MODE(AT_FDCWD, path, flags);
}

SHIM_API int open64(const char *path, int flags, ...)
{
	return OPEN_WITH_MODE(AT_FDCWD, path, flags);
}

SHIM_API int openat(int dir, const char *path, int flags, ...)
{
	return OPEN_WITH_MODE(dir, path, flags);
}

SHIM_API int openat64(int dir, const char *path, int flags, ...)
{
	return OPEN_WITH_MODE(dir, path, flags);
}

/* Fortified programs call these. */
SHIM_API int __open_2(const char *path, int flags);
SHIM_API int __open64_2(const char *path, int flags);
SHIM_API int __openat_2(int dir, const char *path, int flags);
SHIM_API int __openat64_2(int dir, const char *path, int flags);

int __open_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}

int __openat_2(int dir, const char *path, int flags)
{
	return open_at(dir, path, flags, 0);
}

int __openat64_2(int dir, const char *path, int flags)
{
	return open_at(dir, path, flags, 0);
}

/* ---- other users of paths -------------------------------------------------------------------------------------- */

SHIM_API FILE *fopen(const char *path, const char *mode)
{
	char buf[PATH_MAX];

	return NEXT(fopen)(shim_path(path, buf, sizeof(buf)), mode);
}

SHIM_API FILE *fopen64(const char *path, const char *mode)
{
	char buf[PATH_MAX];

	return NEXT(fopen64)(shim_path(path, buf, sizeof(buf)), mode);
}

SHIM_API DIR *opendir(const char *path)
{
	char buf[PATH_MAX];

	return NEXT(opendir)(shim_path(path, buf, sizeof(buf)));
}

SHIM_API int scandir(const char *path, struct dirent ***names, int (*filter)(const struct dirent *),
		     int (*compare)(const struct dirent **, const struct dirent **))
{
	char buf[PATH_MAX];

	return NEXT(scandir)(shim_path(path, buf, sizeof(buf)), names, filter, compare);
}

SHIM_API ssize_t readlink(const char *path, char *to, size_t bytes)
{
	char buf[PATH_MAX];

	return NEXT(readlink)(shim_path(path, buf, sizeof(buf)), to, bytes);
}

SHIM_API char *realpath(const char *path, char *resolved)
{
	const char *root = shim_root();
	char buf[PATH_MAX];
	char *real = NEXT(realpath)(shim_path(path, buf, sizeof(buf)), resolved);

	if (real && root && strncmp(real, root, strlen(root)) == 0)
		memmove(real, real + strlen(root), strlen(real + strlen(root)) + 1);
	return real;
}

/* Fortified programs call these. */
SHIM_API char *__realpath_chk(const char *path, char *resolved, size_t bytes);
SHIM_API ssize_t __readlink_chk(const char *path, char *to, size_t bytes, size_t room);

char *__realpath_chk(const char *path, char *resolved, size_t bytes)
{
	return bytes < PATH_MAX ? NULL : realpath(path, resolved);
}

ssize_t __readlink_chk(const char *path, char *to, size_t bytes, size_t room)
{
	return bytes > room ? -1 : readlink(path, to, bytes);
}

SHIM_API int access(const char *path, int mode)
{
	char buf[PATH_MAX];

	return NEXT(access)(shim_path(path, buf, sizeof(buf)), mode);
}

/* ---- stat ------------------------------------------------------------------------------------------------------ */

static int as_device(int r, int nic, struct stat *st)
{
	if (r == 0 && nic >= 0) {
		st->st_mode = S_IFCHR | 0666;
		st->st_rdev = makedev(SIM_CHAR_MAJOR, SIM_CHAR_MINOR + (unsigned int)nic);
	}
	return r;
}

static int stat_at(int dir, const char *path, struct stat *st, int flags)
{
	int nic = shim_nic_of(path);
	char buf[PATH_MAX];

	if (path && !path[0] && (flags & AT_EMPTY_PATH))
		nic = shim_nic_of_fd(dir);
	return as_device(
		(int)syscall(SYS_newfstatat, dir, shim_path(path, buf, sizeof(buf)), st, flags),
		nic, st);
}

SHIM_API int stat(const char *path, struct stat *st)
{
	return stat_at(AT_FDCWD, path, st, 0);
}

SHIM_API int lstat(const char *path, struct stat *st)
{
	return stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

SHIM_API int fstatat(int dir, const char *path, struct stat *st, int flags)
{
	return stat_at(dir, path, st, flags);
}

SHIM_API int fstat(int fd, struct stat *st)
{
	int r = (int)syscall(SYS_fstat, fd, st);

	return as_device(r, r == 0 && S_ISSOCK(st->st_mode) ? shim_nic_of_fd(fd) : -1, st);
}

/* The 64-bit names are the same functions. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout");

SHIM_API int stat64(const char *path, struct stat64 *st)
{
	return stat(path, (struct stat *)st);
}

SHIM_API int lstat64(const char *path, struct stat64 *st)
{
	return lstat(path, (struct stat *)st);
}

SHIM_API int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
	return fstatat(dir, path, (struct stat *)st, flags);
}

SHIM_API int fstat64(int fd, struct stat64 *st)
{
	return fstat(fd, (struct stat *)st);
}

/* ls of coreutils calls it. */
SHIM_API int statx(int dir, const char *path, int flags, unsigned int mask, struct statx *st)
{
	int nic = shim_nic_of(path);
	char buf[PATH_MAX];
	int r = (int)syscall(SYS_statx, dir, shim_path(path, buf, sizeof(buf)), flags, mask, st);

	if (r == 0 && nic >= 0) {
		st->stx_mode = S_IFCHR | 0666;
		st->stx_rdev_major = SIM_CHAR_MAJOR;
		st->stx_rdev_minor = SIM_CHAR_MINOR + (unsigned int)nic;
	}
	return r;
}

/* ---- calls on a device ----------------------------------------------------------------------------------------- */

SHIM_API int socket(int family, int type, int protocol)
{
	if (family == AF_NETLINK && protocol == NETLINK_RDMA && shim_root()) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return (int)syscall(SYS_socket, family, type, protocol);
}

SHIM_API int ioctl(int fd, unsigned long request, ...)
{
	struct sim_request call = {SIM_REQUEST_IOCTL, (uint32_t)getpid(), {request, 0, 0}};
	int64_t result;
	va_list args;
	void *arg;
	int got;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (((request >> 8) & 0xff) != RDMA_MAGIC || shim_nic_of_fd(fd) < 0)
		return (int)syscall(SYS_ioctl, fd, request, arg);
	call.args[1] = (uint64_t)(uintptr_t)arg;
	result = shim_call(fd, &call, &got);
	if (got >= 0)
		close(got);
	if (result >= 0)
		return (int)result;
	errno = (int)-result;
	return -1;
}

static void note_mapping(void *at, size_t bytes, int fd)
{
	pthread_mutex_lock(&mappings_lock);
	if (n_mappings < MAX_MAPPINGS) {
		int hidden = fcntl(fd, F_DUPFD_CLOEXEC, 512);

		if (hidden < 0)
			hidden = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		mappings[n_mappings++] = (struct mapping){at, bytes, hidden};
	}
	pthread_mutex_unlock(&mappings_lock);
}

static void *map_device(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	struct sim_request call = {
		SIM_REQUEST_MMAP, (uint32_t)getpid(), {(uint64_t)offset, bytes, (uint64_t)prot}};
	int memory;
	int64_t result = shim_call(fd, &call, &memory);
	long at = -1;

	if (result < 0)
		errno = (int)-result;
	else if (memory < 0)
		errno = EIO;
	else
		at = shim_raw_mmap(addr, bytes, prot, flags, memory, 0);
	if (memory >= 0)
		close(memory);
	if (at == -1)
		return MAP_FAILED;
	note_mapping((void *)at, bytes, fd);
	return (void *)at;
}

SHIM_API void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (fd >= 0 && !(flags & MAP_ANONYMOUS) && (flags & MAP_SHARED) && shim_root() &&
	    shim_nic_of_fd(fd) >= 0)
		return map_device(addr, bytes, prot, flags, fd, offset);
	return (void *)shim_raw_mmap(addr, bytes, prot, flags, fd, offset);
}

SHIM_API void *mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off64_t offset)
{
	return mmap(addr, bytes, prot, flags, fd, offset);
}

SHIM_API int munmap(void *addr, size_t bytes)
{
	int r = (int)syscall(SYS_munmap, addr, bytes);
	char *start = addr;

	pthread_mutex_lock(&mappings_lock);
	for (unsigned int i = 0; r == 0 && i < n_mappings; i++) {
		if (mappings[i].at < start || mappings[i].at + mappings[i].bytes > start + bytes)
			continue;
		close(mappings[i].fd);
		mappings[i--] = mappings[--n_mappings];
	}
	pthread_mutex_unlock(&mappings_lock);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages as a NIC sees them: pinned, and the same pages as the process's.
 *
 * Private pages are copied into a memfd that is then mapped in their place, so both sides have one memory from then on,
 * and it outlives the process like pinned pages do. Pages of a shared file are handed over as they are. The places of
 * pinned pages are read from /proc/self/maps each time: munmap, mremap and a new mmap at the same place need no bookkeeping.
 *
 * A thread that writes to a page of the range in the microseconds of the exchange loses that write; a stack is refused,
 * since the exchange itself runs on one. A fork gives the child private copies, as the kernel does with pinned pages.
 */
#include "tests/mlx5sim/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAPS_BYTES (4u << 20)

struct vma {
	uint64_t start, end, offset, dev, ino;
	int prot;
	bool shared;
	bool stack;
	bool ours;
};

/* Private copies of pinned ranges, between the two ends of a fork. */
struct fork_copy {
	void *at;
	void *copy;
	size_t bytes;
	int prot;
};

static pthread_mutex_t pin_lock = PTHREAD_MUTEX_INITIALIZER;
static bool has_pinned;
static struct fork_copy fork_copies[1024];
static unsigned int n_fork_copies;

long shim_raw_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	return syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset);
}

static void raw_munmap(void *addr, size_t bytes)
{
	syscall(SYS_munmap, addr, bytes);
}

/* /proc/self/maps as text, in a mapping of its own: nothing is allocated from a heap that may be exchanged. */
static char *read_maps(void)
{
	long at = shim_raw_mmap(NULL, MAPS_BYTES, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t have = 0;
	char *text;
	int fd;

	if (at == -1)
		return NULL;
	text = (char *)at;
	fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		long n;

		/* A sanitizer of the program does not see this memory come and go, nor shall it see it filled. */
		while (have < MAPS_BYTES - 1 &&
		       (n = syscall(SYS_read, fd, text + have, MAPS_BYTES - 1 - have)) > 0)
			have += (size_t)n;
		close(fd);
	}
	text[have] = 0;
	return text;
}

/* The next line, or false at the end. */
static bool next_vma(char **text, struct vma *ret_vma)
{
	unsigned int dev_major, dev_minor;
	char *end = strchr(*text, '\n');
	char perms[5], *name;
	int at = 0;

	if (!end)
		return false;
	*end = 0;
	memset(ret_vma, 0, sizeof(*ret_vma));
	if (sscanf(*text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &ret_vma->start, &ret_vma->end, perms, &ret_vma->offset, &dev_major, &dev_minor,
		   &ret_vma->ino, &at) < 7)
		return false;
	name = *text + at;
	ret_vma->dev = makedev(dev_major, dev_minor);
	ret_vma->prot = (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0) |
			(perms[2] == 'x' ? PROT_EXEC : 0);
	ret_vma->shared = perms[3] == 's';
	ret_vma->stack = strncmp(name, "[stack", 6) == 0;
	ret_vma->ours = ret_vma->shared && strstr(name, "memfd:" SIM_PIN_NAME) != NULL;
	*text = end + 1;
	return true;
}

static int write_all(int fd, uint64_t addr, uint64_t bytes)
{
	uint64_t done = 0;

	while (done < bytes) {
		/* Whole pages, with what lies around the caller's object: not for a sanitizer of the program to judge. */
		long n = syscall(SYS_pwrite64, fd, addr + done, bytes - done, done);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (uint64_t)n;
	}
	return 0;
}

/* Replaces pages by a memfd with the same content, which is returned. */
static int exchange(const struct vma *vma, uint64_t start, uint64_t bytes)
{
	int fd = memfd_create(SIM_PIN_NAME, MFD_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = ftruncate(fd, (off_t)bytes) < 0 ? -errno : write_all(fd, start, bytes);
	if (r == 0 && shim_raw_mmap((void *)(uintptr_t)start, bytes, vma->prot,
				    MAP_SHARED | MAP_FIXED, fd, 0) == -1)
		r = -errno;
	if (r < 0) {
		close(fd);
		return r;
	}
	has_pinned = true;
	return fd;
}

/* A descriptor of this process for the file of a shared mapping. */
static int fd_of_file(const struct vma *vma)
{
	struct stat st;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, vma->start,
		 vma->end);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path,
			  (vma->prot & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	for (int i = 0; fd < 0 && i < 4096; i++) {
		if (syscall(SYS_newfstatat, i, "", &st, AT_EMPTY_PATH) == 0 &&
		    st.st_ino == vma->ino && st.st_dev == vma->dev)
			fd = fcntl(i, F_DUPFD_CLOEXEC, 0);
	}
	return fd < 0 ? -EOPNOTSUPP : fd;
}

static int pin_vma(const struct vma *vma, uint64_t start, uint64_t end, bool afresh,
		   struct sim_segment *segment)
{
	struct stat st;
	int fd;

	*segment = (struct sim_segment){.bytes = end - start,
					.offset = vma->offset + (start - vma->start),
					.dev = vma->dev,
					.ino = vma->ino,
					.fd_index = -1,
					.writable = !!(vma->prot & PROT_WRITE)};
	if (vma->stack)
		return -EOPNOTSUPP;
	if (!(vma->prot & PROT_READ))
		return -EFAULT;
	if (vma->ours && !afresh)
		return -EAGAIN; /* the simulator has it */
	if (vma->shared && !vma->ours)
		return fd_of_file(vma);
	fd = exchange(vma, start, end - start);
	if (fd < 0 || fstat(fd, &st) < 0)
		return fd;
	segment->offset = 0;
	segment->dev = st.st_dev;
	segment->ino = st.st_ino;
	return fd;
}

static int pin_range(char *text, uint64_t start, uint64_t end, uint32_t flags,
		     struct sim_segment *segments, int *fds, int *n_fds)
{
	struct vma vma;
	int n = 0, fd;

	while (start < end && next_vma(&text, &vma)) {
		uint64_t to = vma.end < end ? vma.end : end;

		if (vma.end <= start)
			continue;
		if (vma.start > start || n == (int)SIM_SEGMENTS_MAX)
			return -EFAULT;
		fd = pin_vma(&vma, start, to, !!(flags & SIM_PIN_AFRESH), &segments[n]);
		if (fd < 0 && fd != -EAGAIN)
			return fd;
		if (fd >= 0) {
			segments[n].fd_index = *n_fds;
			fds[(*n_fds)++] = fd;
		}
		n++;
		start = to;
	}
	return start < end ? -EFAULT : n;
}

int shim_pin(uint64_t addr, uint64_t bytes, uint32_t flags, struct sim_segment *segments, int *fds,
	     int *ret_n_fds)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = addr & ~(page - 1), end;
	char *text;
	int n;

	*ret_n_fds = 0;
	if (!bytes || __builtin_add_overflow(addr, bytes, &end) ||
	    __builtin_add_overflow(end, page - 1, &end))
		return -EINVAL;
	text = read_maps();
	if (!text)
		return -ENOMEM;
	pthread_mutex_lock(&pin_lock);
	n = pin_range(text, start, end & ~(page - 1), flags, segments, fds, ret_n_fds);
	pthread_mutex_unlock(&pin_lock);
	raw_munmap(text, MAPS_BYTES);
	return n;
}

/* ---- fork ------------------------------------------------------------------------------------------------------ */

static void before_fork(void)
{
	struct vma vma;
	char *text, *at;

	pthread_mutex_lock(&pin_lock);
	n_fork_copies = 0;
	text = has_pinned ? read_maps() : NULL;
	at = text;
	while (at && next_vma(&at, &vma) &&
	       n_fork_copies < sizeof(fork_copies) / sizeof(fork_copies[0])) {
		struct fork_copy *copy = &fork_copies[n_fork_copies];
		long to;

		if (!vma.ours || !(vma.prot & PROT_READ))
			continue;
		*copy = (struct fork_copy){(void *)(uintptr_t)vma.start, NULL, vma.end - vma.start,
					   vma.prot};
		to = shim_raw_mmap(NULL, copy->bytes, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (to == -1)
			continue;
		copy->copy = (void *)to;
		memcpy(copy->copy, copy->at, copy->bytes);
		n_fork_copies++;
	}
	if (text)
		raw_munmap(text, MAPS_BYTES);
}

static void after_fork_parent(void)
{
	for (unsigned int i = 0; i < n_fork_copies; i++)
		raw_munmap(fork_copies[i].copy, fork_copies[i].bytes);
	pthread_mutex_unlock(&pin_lock);
}

static void after_fork_child(void)
{
	for (unsigned int i = 0; i < n_fork_copies; i++) {
		struct fork_copy *copy = &fork_copies[i];

		syscall(SYS_mremap, copy->copy, copy->bytes, copy->bytes,
			MREMAP_MAYMOVE | MREMAP_FIXED, copy->at);
		syscall(SYS_mprotect, copy->at, copy->bytes, copy->prot);
	}
	pthread_mutex_unlock(&pin_lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

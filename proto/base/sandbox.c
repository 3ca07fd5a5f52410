/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter is a list of what is refused, not of what is allowed: a new C library that makes another harmless call must not end
 * sessions. Landlock comes without a header here, since older ones lack half of it.
 */
#include "proto/base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#endif
#ifndef HAS_SANITIZER
#define HAS_SANITIZER 0
#endif

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define OTHER_ABI_FROM 0x40000000u /* x32 */
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#define OTHER_ABI_FROM UINT32_MAX
#else
#define ARCH 0
#define OTHER_ABI_FROM UINT32_MAX
#endif

/* ---- the filter ------------------------------------------------------------------------------------------------------- */

/* The same numbers on both machines; headers of older kernels lack some. */
enum { CALL_PIDFD_SEND_SIGNAL = 424, CALL_IO_URING_SETUP = 425, CALL_IO_URING_ENTER = 426, CALL_IO_URING_REGISTER = 427,
       CALL_CLONE3 = 435, CALL_PIDFD_GETFD = 438, CALL_PROCESS_MADVISE = 440, CALL_PROCESS_MRELEASE = 448, CALL_FCHMODAT2 = 452,
       CALL_SETXATTRAT = 463, CALL_REMOVEXATTRAT = 466, CALL_FILE_SETATTR = 469 };

static const uint32_t refused[] = {
	SYS_ptrace, CALL_PIDFD_GETFD, CALL_PROCESS_MADVISE, CALL_PROCESS_MRELEASE, SYS_kcmp,
	SYS_perf_event_open, SYS_bpf, SYS_migrate_pages, SYS_move_pages,
	/* Linux before 6.7 passes rings on: in one of a client's this process would open and connect past the filter. */
	CALL_IO_URING_SETUP, CALL_IO_URING_ENTER, CALL_IO_URING_REGISTER,
	SYS_execve, SYS_execveat,
#if defined(SYS_fork)
	SYS_fork, SYS_vfork,
#endif
	/* By name, where Landlock does not look; before Linux 6.2 at truncate neither. */
	SYS_truncate, SYS_fchmodat, CALL_FCHMODAT2, SYS_fchownat, SYS_setxattr, SYS_lsetxattr, SYS_removexattr, SYS_lremovexattr,
	CALL_SETXATTRAT, CALL_REMOVEXATTRAT, CALL_FILE_SETATTR, SYS_utimensat,
#if defined(SYS_chmod)
	SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
	SYS_socket, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4,
	SYS_setns, SYS_unshare, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_by_handle_at, SYS_keyctl, SYS_add_key,
	SYS_request_key, SYS_setpriority, SYS_sched_setscheduler, SYS_sched_setparam, SYS_ioprio_set,
};

/* The same, but for this process's own number or 0 as the first argument. */
static const uint32_t refused_for_others[] = {SYS_process_vm_readv, SYS_process_vm_writev, SYS_prlimit64,
					     SYS_sched_setattr, SYS_sched_setaffinity};

/* The same, and 0, which is the process group, is refused as well. */
static const uint32_t signals_for_others[] = {SYS_kill, SYS_tgkill};
/* Second arguments of fcntl and ioctl: the kernel then signals somebody else, with a signal of the caller's choice. */
static const uint32_t owners[] = {F_SETOWN, F_SETOWN_EX, F_SETSIG}, owners_by_ioctl[] = {FIOSETOWN, SIOCSPGRP};
static const uint32_t signals[] = {SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, CALL_PIDFD_SEND_SIGNAL};

#define N(array) (sizeof(array) / sizeof((array)[0]))
#define FILTER_MAX 256u /* about 200 are used */
#define ARGUMENT ((uint32_t)offsetof(struct seccomp_data, args)) /* the lower half: both machines are little-endian */
#define SECOND_ARGUMENT ((uint32_t)offsetof(struct seccomp_data, args[1]))
#define SOCKET_TYPES 0xfu /* the others are flags */
#define NUMBER ((uint32_t)offsetof(struct seccomp_data, nr))
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

struct filter {
	struct sock_filter code[FILTER_MAX];
	unsigned short n;
};

static void add(struct filter *filter, struct sock_filter step)
{
	filter->code[filter->n++] = step;
}

static void load(struct filter *filter, uint32_t offset)
{
	add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void end(struct filter *filter, uint32_t result)
{
	add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, result));
}

/* Otherwise the next `skip` steps are left out. */
static void unless_equal_skip(struct filter *filter, uint32_t value, uint8_t skip)
{
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip));
}

static void refuse_each(struct filter *filter, const uint32_t *calls, size_t n, uint32_t result)
{
	for (size_t i = 0; i < n; i++) {
		unless_equal_skip(filter, calls[i], 1);
		end(filter, result);
	}
}

static void refuse_for_others(struct filter *filter, const uint32_t *calls, size_t n, uint32_t also)
{
	uint32_t self = (uint32_t)getpid();

	for (size_t i = 0; i < n; i++) {
		unless_equal_skip(filter, calls[i], 6);
		load(filter, ARGUMENT);
		unless_equal_skip(filter, self, 1);
		end(filter, SECCOMP_RET_ALLOW);
		unless_equal_skip(filter, also, 1);
		end(filter, SECCOMP_RET_ALLOW);
		end(filter, REFUSE);
	}
}

/* The calls whose second argument is one of these. */
static void refuse_arguments(struct filter *filter, uint32_t call, const uint32_t *arguments, size_t n)
{
	unless_equal_skip(filter, call, (uint8_t)(2 + 2 * n));
	load(filter, SECOND_ARGUMENT);
	refuse_each(filter, arguments, n, REFUSE);
	end(filter, SECCOMP_RET_ALLOW);
}

/* Threads may be made. The flags of clone3 are in memory, where no filter can look: the C library then uses clone. */
static void refuse_processes(struct filter *filter)
{
	static const uint32_t clone3[] = {CALL_CLONE3};

	refuse_each(filter, clone3, N(clone3), SECCOMP_RET_ERRNO | ENOSYS);
	unless_equal_skip(filter, SYS_clone, 4);
	load(filter, ARGUMENT);
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1));
	end(filter, SECCOMP_RET_ALLOW);
	end(filter, REFUSE);
}

/* With an address, a datagram goes to any socket without a connection; types that are not the two others are datagrams, too. */
static void refuse_datagrams(struct filter *filter)
{
	unless_equal_skip(filter, SYS_socketpair, 7);
	load(filter, SECOND_ARGUMENT);
	add(filter, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SOCKET_TYPES));
	unless_equal_skip(filter, SOCK_STREAM, 1);
	end(filter, SECCOMP_RET_ALLOW);
	unless_equal_skip(filter, SOCK_SEQPACKET, 1);
	end(filter, SECCOMP_RET_ALLOW);
	end(filter, REFUSE);
}

static void make_filter(struct filter *filter, bool may_signal)
{
	load(filter, offsetof(struct seccomp_data, arch));
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
	end(filter, SECCOMP_RET_KILL_PROCESS);
	load(filter, NUMBER);
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, OTHER_ABI_FROM, 0, 1));
	end(filter, REFUSE);
	refuse_each(filter, refused, N(refused), REFUSE);
	refuse_for_others(filter, refused_for_others, N(refused_for_others), 0);
	refuse_processes(filter);
	refuse_datagrams(filter);
	if (!may_signal) {
		refuse_for_others(filter, signals_for_others, N(signals_for_others), (uint32_t)getpid());
		refuse_each(filter, signals, N(signals), REFUSE);
		refuse_arguments(filter, SYS_fcntl, owners, N(owners));
		refuse_arguments(filter, SYS_ioctl, owners_by_ioctl, N(owners_by_ioctl));
	}
	end(filter, SECCOMP_RET_ALLOW);
}

static bool enter_filter(bool may_signal)
{
	struct filter filter = {.n = 0};
	struct sock_fprog program = {.filter = filter.code};

	if (ARCH == 0)
		return false;
	make_filter(&filter, may_signal);
	program.len = filter.n;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* ---- Landlock ----------------------------------------------------------------------------------------------------------- */

/* linux/landlock.h of Linux 6.12; a kernel of before takes the members that it knows. */
struct ruleset {
	uint64_t files, net, scoped;
};

struct __attribute__((packed)) path_rule {
	uint64_t allowed;
	int32_t parent_fd;
};

enum {
	CALL_CREATE_RULESET = 444,
	CALL_ADD_RULE = 445,
	CALL_RESTRICT_SELF = 446,
	ASK_VERSION = 1,
	RULE_PATH_BENEATH = 1,
	ALLOW_READ_FILE = 1 << 2,
	ALLOW_READ_DIR = 1 << 3,
	SCOPE_ABSTRACT_SOCKETS = 1 << 0,
	SCOPE_SIGNALS = 1 << 1,
};

/* All rights to files that each version has: 13, then rename to another folder, truncate, and ioctl of devices. */
static uint64_t all_rights(long version)
{
	return version >= 5 ? 0xffff : version >= 3 ? 0x7fff : version == 2 ? 0x3fff : 0x1fff;
}

static size_t ruleset_bytes(long version)
{
	return version >= 6 ? sizeof(struct ruleset) : version >= 4 ? offsetof(struct ruleset, scoped) : offsetof(struct ruleset, net);
}

/*
 * Its own folder of /proc, for what its descriptors are and whether its threads sleep. The descriptor stays open: the kernel may forget
 * such a folder, and would make another one that has no rule.
 */
static int allow_own_folder(int rules)
{
	struct path_rule rule = {.allowed = ALLOW_READ_FILE | ALLOW_READ_DIR, .parent_fd = open("/proc/self", O_PATH | O_CLOEXEC)};

	return rule.parent_fd < 0 ? -errno : (int)syscall(CALL_ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0);
}

static bool enter_landlock(bool may_signal)
{
	long version = syscall(CALL_CREATE_RULESET, NULL, 0, ASK_VERSION);
	struct ruleset ruleset = {.files = all_rights(version), .scoped = SCOPE_ABSTRACT_SOCKETS | (may_signal ? 0 : SCOPE_SIGNALS)};
	bool is_done;
	int rules;

	if (version < 1)
		return false;
	rules = (int)syscall(CALL_CREATE_RULESET, &ruleset, ruleset_bytes(version), 0);
	if (rules < 0)
		return false;
	is_done = allow_own_folder(rules) == 0 && syscall(CALL_RESTRICT_SELF, rules, 0) == 0;
	close(rules);
	return is_done;
}

struct sandbox sandbox_enter(bool may_signal)
{
	struct sandbox sandbox = {0};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (HAS_SANITIZER)
		return sandbox;
	sandbox.has_landlock = enter_landlock(may_signal);
	sandbox.has_filter = enter_filter(may_signal);
	return sandbox;
}

enum { TRIED = 4, TRIED_FILTER = 1, TRIED_LANDLOCK = 2 };

int sandbox_try(struct sandbox *ret_sandbox)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		struct sandbox sandbox = sandbox_enter(false);

		_exit(TRIED | (sandbox.has_filter ? TRIED_FILTER : 0) | (sandbox.has_landlock ? TRIED_LANDLOCK : 0));
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status) || !(WEXITSTATUS(status) & TRIED))
		return -EPROTO;
	*ret_sandbox = (struct sandbox){.has_filter = WEXITSTATUS(status) & TRIED_FILTER,
					.has_landlock = WEXITSTATUS(status) & TRIED_LANDLOCK};
	return 0;
}

const char *sandbox_lack(const struct sandbox *sandbox)
{
	if (HAS_SANITIZER)
		return "this build has sanitizers";
	if (!sandbox->has_filter && !sandbox->has_landlock)
		return "this kernel offers neither a filter of system calls nor Landlock";
	if (!sandbox->has_filter)
		return "this kernel offers no filter of system calls";
	return sandbox->has_landlock ? NULL : "this kernel offers no Landlock";
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/session/cgroup.h"
#include "daemon/session/identity.h"
#include "proto/base/cleanup.h"
#include "tests/lib/test.h"

TEST(own_identity)
{
	struct identity identity;
	int socks[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	ASSERT_OK(identity_init(&identity, socks[0]));
	ASSERT_EQ(identity.uid, geteuid());
	ASSERT_EQ(identity.gid, getegid());
	ASSERT_EQ(identity.pid, getpid());
	/* The kernel knows an emulated process by the emulator's name. */
	ASSERT_EQ(strncmp(identity.command, test_emulator() ? test_emulator() : "test-identity", 13), 0);
	identity_deinit(&identity);
	identity_deinit(&identity);
	close(socks[0]);
	close(socks[1]);
}

/* The socket stays open in a forked child; the pidfd still tells. */
TEST(death_is_seen_while_a_child_holds_the_socket)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX}; /* abstract, named by the kernel */
	socklen_t size = sizeof(sa_family_t);
	_cleanup_close_ int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), sock = -1;
	struct identity identity;
	struct pollfd p;
	int status, hold[2], born[2];
	pid_t pid;
	char c;

	ASSERT_OK(pipe(hold));
	ASSERT_OK(pipe(born));
	ASSERT_OK(bind(listener, (struct sockaddr *)&addr, size));
	ASSERT_OK(listen(listener, 1));
	size = sizeof(addr);
	ASSERT_OK(getsockname(listener, (struct sockaddr *)&addr, &size));
	pid = fork();
	if (pid == 0) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		close(hold[1]);
		if (connect(fd, (struct sockaddr *)&addr, size) < 0)
			_exit(1);
		if (fork() == 0) {
			/* The grandchild keeps fd until the test ends. */
			_exit(write(born[1], "x", 1) != 1 || read(hold[0], &c, 1) < 0);
		}
		pause();
	}
	close(hold[0]);
	sock = accept(listener, NULL, NULL);
	ASSERT_GE(sock, 0);
	ASSERT_OK(identity_init(&identity, sock));
	ASSERT_EQ(identity.pid, pid);
	if (identity.pidfd < 0)
		test_skip("this kernel has no pidfd");
	p = (struct pollfd){.fd = identity.pidfd, .events = POLLIN};
	ASSERT_EQ(poll(&p, 1, 0), 0);
	ASSERT_EQ(read(born[0], &c, 1), 1);
	kill(pid, SIGKILL);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(poll(&p, 1, 10000), 1);
	p = (struct pollfd){.fd = sock, .events = POLLIN};
	ASSERT_EQ(poll(&p, 1, 0), 0);
	close(hold[1]);
	close(born[0]);
	close(born[1]);
	identity_deinit(&identity);
}

static void expect_cgroup(const char *text, const char *expected)
{
	char buf[64];

	identity_parse_cgroup(text, buf, sizeof(buf));
	ASSERT_STREQ(buf, expected);
}

TEST(cgroup_of_the_unified_hierarchy_wins)
{
	expect_cgroup("0::/user.slice/user-1000.slice\n", "/user.slice/user-1000.slice");
	expect_cgroup("4:memory:/old\n0::/new\n", "/new");
	expect_cgroup("4:memory:/old\n1:cpu:/\n0::/\n", "/old");
	expect_cgroup("0::/\n", "/");
	expect_cgroup("", "");
	expect_cgroup("nonsense\nmore\n\n", "");
	expect_cgroup("0::/a\033[31mb", "/a?[31mb");
	expect_cgroup("0::/0123456789012345678901234567890123456789012345678901234567890123456789\n",
		      "/01234567890123456789012345678901234567890123456789012345678901");
}

/* The kernel shows no path of 4096 bytes: a tenant may nest cgroups that deep. Such clients count as one tenant, also after a restart. */
TEST(cgroup_nested_too_deep_to_be_shown_is_counted)
{
	struct identity identity = {.pidfd = -1};
	char tenant[256];

	identity_set_cgroup(&identity, -ENAMETOOLONG, "");
	ASSERT_NE(identity.tenant[0], 0);
	ASSERT_NE(strcmp(identity.tenant, "/"), 0);
	cgroup_tenant(identity.cgroup, NULL, NULL, tenant, sizeof(tenant));
	ASSERT_STREQ(tenant, identity.tenant);
	identity_set_cgroup(&identity, -ENOENT, "");
	ASSERT_STREQ(identity.tenant, "");
	identity_set_cgroup(&identity, 0, "0::/user.slice/user-7.slice/x\n");
	ASSERT_STREQ(identity.tenant, "/user.slice/user-7.slice");
}

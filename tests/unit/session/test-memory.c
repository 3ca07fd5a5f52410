/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/session/lab.h"
#include "tests/lib/test.h"

struct scene {
	struct lab lab;
	struct pair pair;
	struct msg req;
};

static void scene_init(struct scene *scene)
{
	lab_init(&scene->lab, 10);
	scene->lab.registry.quota.limits.n[QUOTA_FDS] = 100; /* what is not memory takes a while to close */
	pair_init_hello(&scene->pair, &scene->lab, MSG_ROLE_CLIENT);
	raw_open_nic(&scene->pair.raw, "fake0");
	msg_init(&scene->req, MSG_MEM_REG_REQ, 0);
	scene->req.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD, .access = NIC_ACCESS_ALL, .length_bytes = 4096};
}

static void scene_deinit(struct scene *scene)
{
	ASSERT(!scene->pair.session->ended);
	pair_deinit(&scene->pair);
	lab_assert_empty(&scene->lab);
	lab_deinit(&scene->lab);
}

static void refused(struct scene *scene, int fd, enum shmd_status status)
{
	raw_expect_error(&scene->pair.raw, &scene->req, &fd, 1, status);
	close(fd);
}

TEST(registered_and_deregistered)
{
	struct scene s;
	struct msg req, rep;
	uint32_t mr;

	scene_init(&s);
	mr = raw_reg(&s.pair.raw, 8192);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_BYTES], 8192);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_MRS], 1);
	msg_init(&req, MSG_MEM_DEREG_REQ, 0);
	req.mem_dereg_req.handle = mr;
	raw_expect(&s.pair.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_BYTES], 0);
	raw_expect_error(&s.pair.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	scene_deinit(&s);
}

TEST(descriptors_that_are_no_memory)
{
	struct scene s;
	int socks[2], pipes[2];

	scene_init(&s);
	refused(&s, open("/dev/null", O_RDWR | O_CLOEXEC), SHMD_STATUS_MEM_FD);
	refused(&s, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), SHMD_STATUS_MEM_FD);
	refused(&s, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), SHMD_STATUS_MEM_FD);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks));
	refused(&s, socks[0], SHMD_STATUS_MEM_FD);
	close(socks[1]);
	ASSERT_OK(pipe2(pipes, O_CLOEXEC));
	refused(&s, pipes[1], SHMD_STATUS_MEM_FD);
	close(pipes[0]);
	scene_deinit(&s);
}

TEST(memfd_must_not_shrink)
{
	struct scene s;
	int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	scene_init(&s);
	ASSERT_OK(ftruncate(fd, 4096));
	refused(&s, fd, SHMD_STATUS_MEM_SEALS);
	fd = memfd_create("x", MFD_CLOEXEC);
	ASSERT_OK(ftruncate(fd, 4096));
	refused(&s, fd, SHMD_STATUS_MEM_SEALS);
	scene_deinit(&s);
}

TEST(memory_that_cannot_be_written)
{
	struct scene s;
	char path[64];
	int fd = raw_memfd(4096), ro;

	scene_init(&s);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	refused(&s, ro, SHMD_STATUS_MEM_FD);
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
	refused(&s, fd, SHMD_STATUS_MEM_SEALS);
	scene_deinit(&s);
}

TEST(ranges_outside_the_memory)
{
	static const struct {
		uint64_t offset, length, iova;
	} wrong[] = {
		{0, 0, 0}, {0, 4097, 0}, {4096, 1, 0}, {1, 4096, 1}, {UINT64_MAX - 4095, 4096, 0},
		{0, UINT64_MAX, 0}};
	struct scene s;

	scene_init(&s);
	for (unsigned int i = 0; i < 6; i++) {
		s.req.mem_reg_req.offset = wrong[i].offset;
		s.req.mem_reg_req.length_bytes = wrong[i].length;
		s.req.mem_reg_req.iova = wrong[i].iova;
		refused(&s, raw_memfd(4096), SHMD_STATUS_MEM_RANGE);
	}
	s.req.mem_reg_req.offset = 0;
	s.req.mem_reg_req.length_bytes = 8192;
	s.req.mem_reg_req.iova = UINT64_MAX - 4095;
	refused(&s, raw_memfd(8192), SHMD_STATUS_MEM_RANGE);
	scene_deinit(&s);
}

TEST(iova_and_offset_share_their_place_in_a_page)
{
	struct scene s;

	scene_init(&s);
	s.req.mem_reg_req.iova = 0x10001;
	refused(&s, raw_memfd(4096), SHMD_STATUS_INVALID);
	scene_deinit(&s);
}

TEST(refused_kind_names_the_accepted_ones)
{
	struct scene s;
	struct msg rep;
	int fd = raw_memfd(4096);

	scene_init(&s);
	s.req.mem_reg_req.kind = MSG_MEM_DMABUF;
	raw_expect(&s.pair.raw, &s.req, &fd, 1, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_MEM_KIND);
	ASSERT_EQ(rep.error_rep.accepted_kinds, 1u << MSG_MEM_MEMFD | 1u << MSG_MEM_AGENT);
	ASSERT_STREQ(rep.error_rep.text, "fake0 does not accept dmabuf memory; it accepts memfd, agent");
	s.lab.nics[0].info.accepted_kinds[1] = NIC_MEM_DMABUF;
	registry_refresh_nic(&s.lab.registry.nics[0]);
	raw_expect_error(&s.pair.raw, &s.req, &fd, 1, SHMD_STATUS_MEM_FD);
	close(fd);
	scene_deinit(&s);
}

static void attach(struct scene *s, enum shmd_status status)
{
	struct msg req, rep;
	int fd = raw_memfd(65536);

	msg_init(&req, MSG_AGENT_ATTACH_REQ, 0);
	if (status == SHMD_STATUS_OK)
		raw_expect(&s->pair.raw, &req, &fd, 1, MSG_AGENT_ATTACH_REP, &rep);
	else
		raw_expect_error(&s->pair.raw, &req, &fd, 1, status);
	close(fd);
}

TEST(agent_memory_comes_without_a_descriptor_once_an_agent_is_attached)
{
	struct scene s;
	struct msg rep;

	scene_init(&s);
	s.req.mem_reg_req.kind = MSG_MEM_AGENT;
	raw_expect_error(&s.pair.raw, &s.req, NULL, 0, SHMD_STATUS_INVALID);
	attach(&s, SHMD_STATUS_OK);
	s.req.mem_reg_req.kind = MSG_MEM_AGENT;
	s.req.mem_reg_req.iova = 0x7f0000001234;
	raw_expect(&s.pair.raw, &s.req, NULL, 0, MSG_MEM_REG_REP, &rep);
	scene_deinit(&s);
}

/* Also where a ring takes the place of another. */
TEST(one_ring_of_a_session_is_attached_to_a_nic_and_charged)
{
	struct scene s;

	scene_init(&s);
	s.lab.nics[0].fail_at = s.lab.nics[0].n_calls + 1;
	s.lab.nics[0].fail_err = -EINVAL;
	attach(&s, SHMD_STATUS_MEM_RANGE);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_BYTES], 0);
	attach(&s, SHMD_STATUS_OK);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_BYTES], 65536);
	attach(&s, SHMD_STATUS_OK);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_BYTES], 65536);
	s.lab.nics[0].fail_at = s.lab.nics[0].n_calls + 1;
	s.lab.nics[0].fail_err = -EEXIST;
	attach(&s, SHMD_STATUS_EXISTS);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_BYTES], 65536);
	scene_deinit(&s);
}

TEST(rings_that_could_shrink_or_grow_or_are_no_memory_or_for_other_nics_are_refused)
{
	struct msg req;
	struct scene s;
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), none = open("/dev/null", O_RDWR | O_CLOEXEC);

	scene_init(&s);
	msg_init(&req, MSG_AGENT_ATTACH_REQ, 0);
	raw_expect_error(&s.pair.raw, &req, &fd, 1, SHMD_STATUS_MEM_SEALS);
	/* It is charged before the NIC maps it. */
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	raw_expect_error(&s.pair.raw, &req, &fd, 1, SHMD_STATUS_MEM_SEALS);
	raw_expect_error(&s.pair.raw, &req, &none, 1, SHMD_STATUS_MEM_FD);
	req.agent_attach_req.nic = 1;
	raw_expect_error(&s.pair.raw, &req, &fd, 1, SHMD_STATUS_NOT_FOUND);
	s.lab.nics[0].info.accepted_kinds[1] = 0;
	registry_refresh_nic(&s.lab.registry.nics[0]);
	attach(&s, SHMD_STATUS_MEM_KIND);
	close(fd);
	close(none);
	scene_deinit(&s);
}

/* A scene whose NIC has handed out its command descriptor, if it has one. */
static void scene_init_peermem(struct scene *s, bool has_uar)
{
	lab_init(&s->lab, 10);
	s->lab.nics[0].has_uar = s->lab.nics[0].info.doorbell_uar_mmap = has_uar;
	s->lab.nics[0].info.accepted_kinds[1] = NIC_MEM_PEERMEM;
	registry_refresh_nic(&s->lab.registry.nics[0]);
	pair_init_hello(&s->pair, &s->lab, MSG_ROLE_CLIENT);
	raw_open_nic(&s->pair.raw, "fake0");
	msg_init(&s->req, MSG_MEM_REG_REQ, 0);
	s->req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_PEERMEM, .access = NIC_ACCESS_ALL, .length_bytes = 8192};
}

TEST(region_that_the_client_made_is_charged_listed_and_given_back)
{
	struct scene s;
	struct msg rep, list;

	scene_init_peermem(&s, true);
	snprintf(s.req.mem_reg_req.reason, sizeof(s.req.mem_reg_req.reason), "no dmabuf here");
	raw_expect(&s.pair.raw, &s.req, NULL, 0, MSG_MEM_REG_REP, &rep);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_BYTES], 8192);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_MRS], 1);
	msg_init(&list, MSG_LIST_REQ, 0);
	list.list_req.what = MSG_LIST_MRS;
	raw_expect(&s.pair.raw, &list, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_mrs, 1);
	ASSERT_EQ(rep.list_rep.mrs[0].kind, MSG_MEM_PEERMEM);
	ASSERT_STREQ(rep.list_rep.mrs[0].reason, "no dmabuf here");
	msg_deinit(&rep);
	s.req.mem_reg_req.kernel_handle = FAKE_NO_REGION;
	raw_expect_error(&s.pair.raw, &s.req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_BYTES], 8192);
	scene_deinit(&s);
}

TEST(without_a_command_descriptor_no_region_is_the_clients)
{
	struct scene s;
	struct msg rep;

	scene_init_peermem(&s, false);
	raw_expect(&s.pair.raw, &s.req, NULL, 0, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_PERMISSION);
	ASSERT(strstr(rep.error_rep.text, "got no command descriptor of fake0"));
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_BYTES], 0);
	scene_deinit(&s);
}

TEST(unknown_access_kind_and_nic)
{
	struct scene s;
	int fd;

	scene_init(&s);
	s.req.mem_reg_req.access = 0x10;
	refused(&s, raw_memfd(4096), SHMD_STATUS_INVALID);
	s.req.mem_reg_req.access = 1;
	s.req.mem_reg_req.nic = 1;
	refused(&s, raw_memfd(4096), SHMD_STATUS_NOT_FOUND);
	s.req.mem_reg_req.nic = 0;
	s.req.mem_reg_req.kind = MSG_MEM_UNSET;
	fd = raw_memfd(4096);
	refused(&s, fd, SHMD_STATUS_INVALID);
	scene_deinit(&s);
}

TEST(quotas_of_memory_name_their_limit)
{
	struct scene s;
	struct msg rep;
	int fd = raw_memfd(11 << 20);

	scene_init(&s);
	s.req.mem_reg_req.length_bytes = 11 << 20;
	raw_expect(&s.pair.raw, &s.req, &fd, 1, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_QUOTA_BYTES);
	ASSERT(strstr(rep.error_rep.text, "limit reached: max-registered-bytes is 10485760"));
	s.req.mem_reg_req.length_bytes = 4096;
	for (int i = 0; i < 10; i++)
		raw_expect(&s.pair.raw, &s.req, &fd, 1, MSG_MEM_REG_REP, &rep);
	raw_expect_error(&s.pair.raw, &s.req, &fd, 1, SHMD_STATUS_QUOTA_MRS);
	close(fd);
	scene_deinit(&s);
}

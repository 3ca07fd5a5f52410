/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NICs: listing them, and opening one for this session.
 *
 * An open NIC has a doorbell page mapped for writing, a page mapped for reading that says whether its thread sleeps,
 * and an eventfd to wake it. The descriptors of the two pages are closed once they are mapped. The
 * daemon's side of a NIC, its context, ends with the session only.
 *
 * In mode uar-mmap the page is the NIC's own. If this process or its GPU cannot use it, the library reports the reason, and the
 * daemon gives a page of mode cpu instead. Older queues go on ringing the former page, so that stays mapped.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "libclient/agent.h"
#include "libclient/from-msg.h"
#include "libclient/objects.h"

int shmd_nic_list(struct shmd_client *client, struct shmd_nic_info *infos, unsigned int n)
{
	_cleanup_request_ struct request call;
	const struct msg_nic_list_rep *rep = &call.rep.nic_list_rep;
	int r;

	request_init(&call, MSG_NIC_LIST_REQ, MSG_NIC_LIST_REP);
	r = client_check(client);
	if (r < 0)
		return r;
	if (n && !infos)
		return text_fail(-EINVAL, "infos is NULL");
	r = request_call(client, &call);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < rep->n_nics && i < n; i++)
		nic_info_from_msg(&rep->nics[i], &infos[i]);
	return (int)rep->n_nics;
}

/* ---- opening */

void nic_free(struct shmd_nic *nic)
{
	if (nic->page)
		unmap_shared(nic->page, PAGE_BYTES);
	if (nic->former_page)
		unmap_shared(nic->former_page, PAGE_BYTES);
	if (nic->nic_page)
		unmap_shared((void *)nic->nic_page, PAGE_BYTES);
	safe_close(nic->wake_fd);
	safe_close(nic->command_fd);
	list_del(&nic->link);
	pthread_mutex_destroy(&nic->doorbell_lock);
	free(nic);
}
DEFINE_CLEANUP(struct shmd_nic *, nic_free);

/* The pages and the descriptor of one answer; all or nothing. */
struct doorbell {
	void *page;
	struct shmd_nic_page *nic_page;
	int wake_fd;
};

static void doorbell_deinit(struct doorbell *doorbell)
{
	if (doorbell->page)
		unmap_shared(doorbell->page, PAGE_BYTES);
	if (doorbell->nic_page)
		unmap_shared(doorbell->nic_page, PAGE_BYTES);
	safe_close(doorbell->wake_fd);
}

static int map_page(struct request *call, uint32_t index, uint64_t offset, int prot, void **ret_page)
{
	_cleanup_close_ int fd = request_take_fd(call, index);
	void *page;

	if (fd < 0)
		return fd;
	page = map_shared(fd, offset, PAGE_BYTES, prot);
	if (page == MAP_FAILED)
		return text_fail(-errno, "cannot map a page of the NIC: %s", strerror(errno));
	*ret_page = page;
	return 0;
}

static int check_doorbell(const struct msg_nic_open_rep *rep)
{
	if (rep->register_offset > PAGE_BYTES - 8 || rep->register_offset % 8 ||
	    rep->nic >= SHMD_HEALTH_NICS)
		return text_fail(-EPROTO, "shmemd's description of the NIC makes no sense");
	return 0;
}

static int map_nic_page(struct doorbell *doorbell, struct request *call)
{
	const struct msg_nic_open_rep *rep = &call->rep.nic_open_rep;
	void *page = NULL;
	int r;

	if (rep->wake_fd) {
		doorbell->wake_fd = request_take_fd(call, rep->wake_fd - 1);
		if (doorbell->wake_fd < 0)
			return doorbell->wake_fd;
	}
	if (!rep->nic_page_fd)
		return 0;
	r = map_page(call, rep->nic_page_fd - 1, 0, PROT_READ, &page);
	if (r < 0)
		return r;
	doorbell->nic_page = page;
	if (doorbell->nic_page->version != SHMD_NIC_PAGE_VERSION)
		return text_fail(-EPROTONOSUPPORT, "shmemd's NIC page has version %u, this library knows %u",
				 doorbell->nic_page->version, SHMD_NIC_PAGE_VERSION);
	return 0;
}

static int map_doorbell(struct request *call, struct doorbell *ret_doorbell)
{
	const struct msg_nic_open_rep *rep = &call->rep.nic_open_rep;
	struct doorbell doorbell = {.wake_fd = -1};
	int r = check_doorbell(rep);

	if (!r)
		r = map_nic_page(&doorbell, call);
	if (!r)
		r = map_page(call, rep->page_fd, rep->page_offset, PROT_READ | PROT_WRITE, &doorbell.page);
	if (r < 0)
		doorbell_deinit(&doorbell);
	else
		*ret_doorbell = doorbell;
	return r;
}

/* From now on the daemon's answer is the NIC's doorbell. */
static void take_doorbell(struct shmd_nic *nic, const struct msg_nic_open_rep *rep, const struct doorbell *doorbell)
{
	pthread_mutex_lock(&nic->doorbell_lock);
	nic->former_page = nic->page;
	nic->page = doorbell->page;
	nic->nic_page = doorbell->nic_page;
	nic->wake_fd = doorbell->wake_fd;
	nic->register_offset = rep->register_offset;
	nic->info.doorbell_mode = rep->doorbell == SHMD_DOORBELL_UAR_MMAP ? SHMD_DOORBELL_UAR_MMAP : SHMD_DOORBELL_CPU;
	text_copy(nic->info.doorbell_reason, sizeof(nic->info.doorbell_reason), rep->reason);
	pthread_mutex_unlock(&nic->doorbell_lock);
}

int nic_to_cpu(struct shmd_nic *nic, const char *why)
{
	_cleanup_request_ struct request call;
	struct msg_nic_doorbell_req *ask = &call.req.nic_doorbell_req;
	char reason[sizeof(ask->reason)], why_not[CLIENT_TEXT_BYTES];
	struct doorbell doorbell;
	int r;

	/* `why` may be this thread's error text. */
	text_copy(reason, sizeof(reason), why);
	request_init(&call, MSG_NIC_DOORBELL_REQ, MSG_NIC_OPEN_REP);
	if (!nic->is_auto)
		return text_fail(-EOPNOTSUPP, "%s; with the doorbell mode left to shmemd, or mode cpu, that page is not needed",
				 reason);
	ask->nic = nic->info.index;
	ask->doorbell = SHMD_DOORBELL_CPU;
	text_copy(ask->reason, sizeof(ask->reason), reason);
	r = request_call_locked(nic->client, &call);
	if (!r && call.rep.nic_open_rep.doorbell != SHMD_DOORBELL_CPU)
		r = text_fail(-EPROTO, "shmemd changed to another doorbell mode than cpu");
	if (!r)
		r = map_doorbell(&call, &doorbell);
	if (r < 0) {
		text_copy(why_not, sizeof(why_not), shmd_error_text());
		return text_fail(r, "%s; and no doorbell mode cpu either: %s", reason, why_not);
	}
	take_doorbell(nic, &call.rep.nic_open_rep, &doorbell);
	nic->fell_back = true;
	return 0;
}

/*
 * In mode uar-mmap the page's descriptor is that of the NIC's context, by which this process may register memory itself. The
 * library keeps it even if the page is of no use; if no descriptor is free, it refuses such memory.
 */
static void keep_command_fd(struct shmd_nic *nic, const struct request *call)
{
	const struct msg_nic_open_rep *rep = &call->rep.nic_open_rep;

	if (!rep->pd || rep->doorbell != SHMD_DOORBELL_UAR_MMAP)
		return;
	nic->command_fd = fcntl(fdlist_get(&call->rep_fds, rep->page_fd), F_DUPFD_CLOEXEC, 3);
	nic->pd = rep->pd - 1;
}

/* If the page of mode uar-mmap cannot be mapped, mode cpu may work. Other errors end the call. */
static int open_doorbell(struct shmd_nic *nic, struct request *call)
{
	const struct msg_nic_open_rep *rep = &call->rep.nic_open_rep;
	struct doorbell doorbell;
	int r;

	keep_command_fd(nic, call);
	r = map_doorbell(call, &doorbell);
	if (!r) {
		take_doorbell(nic, rep, &doorbell);
		return 0;
	}
	if (rep->doorbell != SHMD_DOORBELL_UAR_MMAP || r == -EPROTO)
		return r;
	client_lock(nic->client);
	r = nic_to_cpu(nic, shmd_error_text());
	client_unlock(nic->client);
	return r;
}

static int nic_new(struct shmd_client *client, struct request *call, bool is_auto, struct shmd_nic **ret_nic)
{
	const struct msg_nic_open_rep *rep = &call->rep.nic_open_rep;
	_cleanup_(nic_freep) struct shmd_nic *nic = calloc(1, sizeof(*nic));
	int r;

	if (!nic)
		return text_fail(-ENOMEM, "no memory for a NIC");
	list_init(&nic->link);
	pthread_mutex_init(&nic->doorbell_lock, NULL);
	nic->client = client;
	nic->is_auto = is_auto;
	nic->wake_fd = nic->command_fd = -1;
	nic_info_from_msg(&rep->info, &nic->info);
	nic->info.index = rep->nic;
	text_copy(nic->info.assignment, sizeof(nic->info.assignment), rep->assignment);
	r = open_doorbell(nic, call);
	if (r < 0)
		return r;
	*ret_nic = take_ptr(nic);
	return 0;
}

static int fill_open(struct msg_nic_open_req *req, const struct shmd_nic_attr *attr)
{
	if (!attr)
		return 0;
	if ((unsigned int)attr->doorbell > SHMD_DOORBELL_UAR_MMAP)
		return text_fail(-EINVAL, "doorbell mode %d is unknown; 0 leaves it to shmemd", (int)attr->doorbell);
	if ((attr->gpu && strlen(attr->gpu) >= sizeof(req->gpu)) ||
	    (attr->nic && strlen(attr->nic) >= sizeof(req->nic)))
		return text_fail(-EINVAL, "the name of the GPU or the NIC is too long");
	req->doorbell = (uint32_t)attr->doorbell;
	text_copy(req->gpu, sizeof(req->gpu), attr->gpu ? attr->gpu : "");
	text_copy(req->nic, sizeof(req->nic), attr->nic ? attr->nic : "");
	return 0;
}

int shmd_nic_open(struct shmd_client *client, const struct shmd_nic_attr *attr, struct shmd_nic **ret_nic)
{
	_cleanup_request_ struct request call;
	struct shmd_nic *nic = NULL;
	int r;

	request_init(&call, MSG_NIC_OPEN_REQ, MSG_NIC_OPEN_REP);
	r = client_check_out(client, ret_nic, "ret_nic");
	if (r < 0)
		return r;
	r = fill_open(&call.req.nic_open_req, attr);
	if (!r)
		r = request_call(client, &call);
	if (!r)
		r = nic_new(client, &call, !call.req.nic_open_req.doorbell, &nic);
	if (r < 0)
		return r;
	client_lock(client);
	list_add_tail(&client->nics, &nic->link);
	client_unlock(client);
	*ret_nic = nic;
	return 0;
}

int shmd_nic_info(const struct shmd_nic *nic, struct shmd_nic_info *ret_info)
{
	pthread_mutex_t *lock;
	int r = client_check_out(nic ? nic->client : NULL, ret_info, "ret_info");

	if (r < 0)
		return r;
	lock = (pthread_mutex_t *)&nic->doorbell_lock;
	pthread_mutex_lock(lock);
	*ret_info = nic->info;
	pthread_mutex_unlock(lock);
	return 0;
}

int shmd_nic_close(struct shmd_nic *nic)
{
	struct shmd_client *client = nic ? nic->client : NULL;
	unsigned int n_users;
	int r = client_check(client);

	if (r < 0)
		return r;
	client_lock(client);
	n_users = nic->n_users;
	if (!n_users)
		r = agent_forget_nic(nic);
	if (!n_users && !r) {
		gpu_forget_range(client, nic->page);
		gpu_forget_range(client, nic->former_page);
		nic_free(nic);
	}
	client_unlock(client);
	if (n_users)
		return text_fail(-EBUSY, "%u memory regions, queue batches and DCTs of this NIC still exist", n_users);
	return r;
}

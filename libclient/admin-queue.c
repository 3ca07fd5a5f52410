/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look into the queues of any session.
 *
 * A reply holds part of a ring; reading more takes several requests. Sizes from the daemon are checked
 * against the size of the caller's buffer.
 */
#include <string.h>

#include <shmd/abi/cqe.h>

#include "libclient/from-msg.h"
#include "libclient/request.h"

_Static_assert((int)SHMD_PART_RECV_CQ == (int)MSG_PART_RECV_CQ, "the same numbers");

int shmd_admin_queue_head(struct shmd_client *client, const char *nic, uint32_t qpn,
			  struct shmd_queue_head *ret_head)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_QUEUE_DUMP_REQ, MSG_QUEUE_DUMP_REP);
	r = client_check_out(client, ret_head, "ret_head");
	if (r < 0)
		return r;
	r = request_set_nic(call.req.queue_dump_req.nic, nic);
	if (r < 0)
		return r;
	call.req.queue_dump_req.qpn = qpn;
	call.req.queue_dump_req.part = MSG_PART_NONE;
	r = request_call(client, &call);
	return r < 0 ? r : queue_head_from_msg(&call.rep.queue_dump_rep, ret_head);
}

/* The rest of the entries, and the place for them. */
struct read_state {
	struct msg_queue_dump_req ask; /* first and n move on */
	uint32_t entry_bytes; /* 0: not known yet */
	uint8_t *to;
};

static bool is_entry_size(enum msg_queue_part part, uint32_t bytes)
{
	if (part != MSG_PART_RQ)
		return bytes == SHMD_CQE_BYTES;
	return bytes >= 16 && bytes <= SHMD_MAX_RQ_STRIDE_BYTES && !(bytes & (bytes - 1));
}

static int take_data(struct read_state *state, const struct msg_queue_dump_rep *rep)
{
	uint32_t n;

	if (!rep->entry_bytes)
		return text_fail(-ENOENT, "QP 0x%x has no such ring", state->ask.qpn);
	if (!is_entry_size(state->ask.part, rep->entry_bytes) ||
	    (state->entry_bytes && state->entry_bytes != rep->entry_bytes))
		return text_fail(-EPROTO, "shmemd reports queue entries of %u bytes", rep->entry_bytes);
	n = rep->data_bytes / rep->entry_bytes;
	if (!n || n > state->ask.n || rep->data_bytes % rep->entry_bytes)
		return text_fail(-EPROTO, "shmemd sent %u entries where %u were asked for", n, state->ask.n);
	memcpy(state->to, rep->data, rep->data_bytes);
	state->entry_bytes = rep->entry_bytes;
	state->to += rep->data_bytes;
	state->ask.first += n; /* rings are powers of two: it may wrap */
	state->ask.n -= n;
	return 0;
}

static int read_some(struct shmd_client *client, struct read_state *state)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_QUEUE_DUMP_REQ, MSG_QUEUE_DUMP_REP);
	call.req.queue_dump_req = state->ask;
	r = request_call(client, &call);
	return r < 0 ? r : take_data(state, &call.rep.queue_dump_rep);
}

int shmd_admin_queue_read(struct shmd_client *client, const char *nic, uint32_t qpn,
			  enum shmd_queue_part part, uint32_t first, uint32_t n, void *buf)
{
	struct read_state state = {
		.ask = {.qpn = qpn, .part = (enum msg_queue_part)part, .first = first, .n = n},
		.to = buf,
	};
	int r;

	r = client_check(client);
	if (r < 0)
		return r;
	if (part < SHMD_PART_SQ || part > SHMD_PART_RECV_CQ || (n && !buf))
		return text_fail(-EINVAL, "%s", n && !buf ? "buf is NULL" : "there is no such part of a queue");
	r = request_set_nic(state.ask.nic, nic);
	while (!r && state.ask.n)
		r = read_some(client, &state);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peers that a NIC's DCIs have: the daemon keeps nothing for them, so the client reports how many go by DCIs and how many by a
 * QP of their own, for the daemon's lists.
 */
#include "libclient/objects.h"

void peers_count(struct shmd_nic *nic, struct msg_peer_resolve_req *req)
{
	const struct shmd_queues *queues;

	client_lock(nic->client);
	list_for_each_entry(queues, &nic->client->queues, link) {
		unsigned int n_rc = 0;

		/* Batches without a table may be half made. */
		if (queues->nic != nic || !queues->peers)
			continue;
		for (unsigned int i = 0; queues->hot && i < queues->hot->n_slots; i++)
			n_rc += queues->hot->slots[i].is_connected;
		req->n_rc_peers += n_rc;
		req->n_dc_peers += queues->dev_state->n_peers - n_rc;
	}
	client_unlock(nic->client);
}

int peers_report(struct shmd_nic *nic)
{
	_cleanup_request_ struct request call;

	request_init(&call, MSG_PEER_RESOLVE_REQ, MSG_PEER_RESOLVE_REP);
	call.req.peer_resolve_req.nic = nic->info.index;
	peers_count(nic, &call.req.peer_resolve_req);
	return request_call(nic->client, &call);
}

void peers_report_quietly(struct shmd_nic *nic)
{
	char text[CLIENT_TEXT_BYTES];

	text_copy(text, sizeof(text), shmd_error_text());
	(void)peers_report(nic);
	text_fail(0, "%s", text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finding things in a session, and adding up what its NICs counted. Changes nothing. Control thread. */
#include "daemon/session/session.h"

#include <string.h>

bool session_is_listed(const struct session *session)
{
	return session->version != 0 && session->role == MSG_ROLE_CLIENT && !session->ended;
}

bool session_is_admin(const struct session *session)
{
	return session->identity.uid == 0 || session->identity.uid == session->registry->owner_uid;
}

bool session_may_see(const struct session *session, uint32_t uid)
{
	return session_is_admin(session) || session->identity.uid == uid;
}

struct session_nic *session_nic_by_index(struct session *session, uint32_t index)
{
	return index < session->n_nics ? session->nics[index] : NULL;
}

struct session_nic *session_nic_by_rnic(struct session *session, const struct registry_nic *rnic)
{
	for (unsigned int i = 0; i < session->n_nics; i++)
		if (session->nics[i]->rnic == rnic)
			return session->nics[i];
	return NULL;
}

bool session_nic_has_qpn(const struct session_nic *nic, uint32_t qpn)
{
	return hash_get(&nic->qps, qpn);
}

const struct nic_qp *session_nic_qp(const struct session_nic *nic, uint32_t qpn)
{
	const struct session_queues *queues = hash_get(&nic->qps, qpn);
	const struct nic_layout *layout = queues ? &queues->queues->layout : NULL;
	uint32_t guess = queues ? qpn - queues->first_qpn : 0;

	/* Numbers of one batch mostly follow each other. */
	if (layout && guess < layout->n_qps && layout->qps[guess].qpn == qpn)
		return &layout->qps[guess];
	for (uint32_t i = 0; layout && i < layout->n_qps; i++)
		if (layout->qps[i].qpn == qpn)
			return &layout->qps[i];
	return NULL;
}

bool session_nic_has_cqn(const struct session_nic *nic, uint32_t cqn)
{
	return hash_get(&nic->cqs, cqn);
}

int session_counters(struct session *session, struct nic_counters *ret_counters)
{
	struct nic_counters sum = {0}, one;

	for (unsigned int i = 0; i < session->n_nics; i++) {
		struct nic_ctx *ctx = session->nics[i]->ctx;
		int r = ctx->nic->ops->ctx_counters(ctx, &one);

		if (r < 0)
			return r;
		nic_counters_add(&sum, &one);
	}
	*ret_counters = sum;
	return 0;
}

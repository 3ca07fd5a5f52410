/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State, peer and first error of each QP, as requests, events and lists reported them last. A change is saved with the next answer.
 * Control thread.
 */
#include "daemon/session/qp-cache.h"

/* NULL: the session has no QP of this number. */
static struct session_qp *find(const struct session_nic *nic, uint32_t qpn, struct session_queues **ret_queues)
{
	uint32_t i;

	*ret_queues = session_nic_find_qp(nic, qpn, &i);
	return *ret_queues ? &(*ret_queues)->qps[i] : NULL;
}

static void set(struct session_queues *queues, struct session_qp *known, const struct session_qp *qp)
{
	if (known->state == qp->state && known->dest_qpn == qp->dest_qpn && known->first_error == qp->first_error)
		return;
	*known = *qp;
	session_save(queues->nic->session, SAVE_QPS, queues, -1);
}

void qp_cache_set(struct session_nic *nic, uint32_t qpn, const struct session_qp *qp)
{
	struct session_queues *queues;
	struct session_qp *known = find(nic, qpn, &queues);

	if (known)
		set(queues, known, qp);
}

void qp_cache_set_info(struct session_nic *nic, uint32_t qpn, const struct nic_qp_info *info)
{
	qp_cache_set(nic, qpn, &(struct session_qp){info->state, info->dest_qpn, info->first_error});
}

/* Reset forgets peer and error. */
void qp_cache_set_state(struct session_nic *nic, uint32_t qpn, enum nic_qp_state state)
{
	struct session_queues *queues;
	struct session_qp *known = find(nic, qpn, &queues);

	if (known && state == NIC_QPS_RST)
		set(queues, known, &(struct session_qp){.state = state});
	else if (known)
		set(queues, known, &(struct session_qp){state, known->dest_qpn, known->first_error});
}

void qp_cache_error(struct session_nic *nic, uint32_t qpn, uint32_t syndrome)
{
	struct session_queues *queues;
	struct session_qp *known = find(nic, qpn, &queues);

	if (known)
		set(queues, known, &(struct session_qp){
			NIC_QPS_ERR, known->dest_qpn, known->first_error ? known->first_error : syndrome});
}

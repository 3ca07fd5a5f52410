/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of a DCI: each WQE names one, and what fails ends its stream alone. The others go on, on a new connection; what
 * is posted to a stream in error is flushed until the owner resets it. So many streams in error end the DCI.
 *
 * Streams are not executed beside each other: a request of another stream waits, as one for another DCT does, until all
 * before it have completed. So when a request fails, what is on its way behind it is of its own stream, and nothing is ever
 * sent twice that may have been executed. An error that no WQE caused (an index that cannot be true) ends the DCI.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/mlx5sim/engine-extra/extra-private.h"

int streams_init(struct engine_qp *qp)
{
	/* bounded: 2^ENGINE_MAX_LOG2_ERRORED, checked when the QP is made. */
	qp->streams.max = 1u << qp->attr.log2_errored_streams;
	qp->streams.errored = calloc(qp->streams.max, sizeof(*qp->streams.errored));
	return qp->streams.errored ? 0 : -ENOMEM;
}

static unsigned int find(const struct streams *streams, uint16_t stream)
{
	unsigned int i = 0;

	while (i < streams->n && streams->errored[i] != stream)
		i++;
	return i;
}

/* As the WQE says, which is kept until the request has completed. */
static uint16_t stream_of(const struct engine_qp *qp, const struct sent *sent)
{
	struct shmd_wqe_ctrl_seg ctrl;

	memcpy(&ctrl, shadow_wqe(qp, sent->wqe_index), sizeof(ctrl));
	return (uint16_t)(ctrl.dci_stream_be[0] << 8 | ctrl.dci_stream_be[1]);
}

bool stream_is_errored(const struct engine_qp *qp, const struct sent *sent)
{
	return find(&qp->streams, stream_of(qp, sent)) < qp->streams.n;
}

bool stream_goes_on(const struct engine_qp *qp, const struct sent *sent)
{
	return qp->streams.present == stream_of(qp, sent);
}

void stream_begin(struct engine_qp *qp, const struct sent *sent)
{
	qp->streams.present = stream_of(qp, sent);
}

/* Everything of the stream that was fetched fails as well, in its turn. */
static void flush_stream(struct engine_qp *qp, uint16_t stream)
{
	struct requester *req = &qp->req;

	for (uint32_t i = req->head; i != req->tail; i++) {
		struct sent *sent = &req->sent[i & req->sent_mask];

		if (!sent->syndrome && stream_of(qp, sent) == stream)
			sent->syndrome = SHMD_SYNDROME_WR_FLUSH_ERR;
	}
}

/* Requests behind the flushed ones have not been sent, except NOPs, which are done. */
static uint32_t first_to_send(const struct requester *req)
{
	uint32_t i = req->head;

	while (i != req->tail) {
		const struct sent *sent = &req->sent[i & req->sent_mask];

		if (!sent->syndrome && !(sent->flags & SENT_STARTED))
			break;
		i++;
	}
	return i;
}

/* The connection ends with all that it knows; the next request begins another one. */
static void begin_anew(struct engine_qp *qp)
{
	struct requester *req = &qp->req;

	timer_cancel(qp);
	packet_put_all(qp->engine, &req->rx);
	if (qp->dc.connected)
		dc_leave(qp);
	req->life = ++qp->engine->next_life;
	req->cursor = first_to_send(req);
	req->loaded = req->halted = req->rnr_wait = req->recovering = false;
	req->resume_packet = 0;
	req->n_since_ack_req = req->n_fetches = req->n_reads = 0;
	req->unacked_psn = req->sent_psn = req->next_psn;
	req->retry_left = qp->path.retry_count;
	req->rnr_left = qp->path.rnr_retry;
	qp_ready(qp);
}

bool stream_takes_error(struct engine_qp *qp, const struct sent *failed)
{
	struct streams *streams = &qp->streams;
	uint16_t stream;

	if ((failed->flags & SENT_NO_STREAM) || !qp_can_send(qp))
		return false;
	stream = stream_of(qp, failed);
	if (failed->syndrome != SHMD_SYNDROME_WR_FLUSH_ERR && find(streams, stream) == streams->n) {
		if (streams->n + 1 == streams->max)
			return false;
		streams->errored[streams->n++] = stream;
	}
	flush_stream(qp, stream);
	begin_anew(qp);
	return true;
}

int engine_qp_reset_stream(struct engine *engine, uint32_t qpn, uint16_t stream)
{
	struct engine_qp *qp = hash_get(&engine->qps, qpn);
	unsigned int i;

	if (!qp || qp->zombie)
		return -ENOENT;
	i = find(&qp->streams, stream);
	if (qp->state != ENGINE_QP_RTS || i == qp->streams.n)
		return -EINVAL;
	qp->streams.errored[i] = qp->streams.errored[--qp->streams.n];
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting pairs of processes in one call: publish, fetch, connect, and wait for the other side.
 *
 * Each side publishes a page for each peer (pair-page.c): a memfd with the addresses of its QPs, and a state that says when they
 * are connected. A side that sees its peer's page CONNECTED knows two things: it may post, and the peer has its page, so the entry
 * can be taken back. That page lives as long as one of the two has it mapped, so neither side has to wait for a last word.
 *
 * Calls follow one another under the same tag, so a side may find the page of a peer's call that is not over yet. Each page names
 * the entry that its owner uses ("answers"): a page that answers another call is stale, and the side waits for the next one.
 *
 * The entry of a peer ends with its session. So the waiting side asks the daemon now and then whether the same entry is still
 * there; if not, it looks at the page once more, since a peer that succeeded takes its entry back too.
 *
 * Entries have a world of their own, made of the caller's world and the tag, and never meet those that the caller publishes.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/objects.h"
#include "libclient/pair-page.h"

#define ASK_EVERY_NSEC (20 * NSEC_PER_MSEC)

/* One pair under way. */
struct end {
	struct shmd_pair *pair;
	unsigned int n_qps;
	struct pair_page *own;
	uint64_t nonce; /* of the entry that leads to own */
	struct pair_entry peer_entry; /* as it was published when peer was mapped */
	const struct pair_page *peer;
	bool is_published;
	bool is_tried; /* to connect */
	unsigned int n_touched; /* QPs that this call moved out of RST */
};

struct job {
	struct shmd_queues *queues;
	struct shmd_client *client;
	const struct shmd_pair_attr *attr;
	struct shmd_world_key world;
	uint64_t timeout_nsec, deadline;
	bool is_silent; /* the daemon has not answered a request of the clean-up */
	unsigned int n;
	struct end *ends;
};

static struct shmd_world_key world_of_pairs(const struct shmd_pair_attr *attr)
{
	static const uint8_t mark[sizeof(attr->world.secret)] = "shmd-pair";
	struct shmd_world_key world = attr->world;

	for (unsigned int i = 0; i < sizeof(world.secret); i++)
		world.secret[i] ^= mark[i];
	for (unsigned int i = 0; i < 4; i++)
		world.secret[12 + i] ^= (uint8_t)(attr->tag >> (8 * i));
	return world;
}

static uint64_t time_left(const struct job *job)
{
	uint64_t now = nsec_now();

	return now < job->deadline ? job->deadline - now : 0;
}

/* ---- arguments */

static int check_pair(const struct shmd_queues *queues, const struct shmd_pair *pair, unsigned int n_qps)
{
	if (pair->first >= queues->attr.n_qps || n_qps > queues->attr.n_qps - pair->first)
		return text_fail(-EINVAL, "PE %u: QPs %u to %u are not all in a batch of %u", pair->pe, pair->first,
				 pair->first + n_qps - 1, queues->attr.n_qps);
	if (pair->bytes > SHMD_PAIR_DATA_BYTES || (pair->bytes && !pair->data))
		return text_fail(-EINVAL, "PE %u: data is NULL, or its %zu bytes are more than %u", pair->pe, pair->bytes,
				 SHMD_PAIR_DATA_BYTES);
	return 0;
}

static int job_init(struct job *job, struct shmd_queues *queues, const struct shmd_pair_attr *attr, struct shmd_pair *pairs,
		    unsigned int n)
{
	int r = queues_check(queues, 0);

	if (r < 0)
		return r;
	if (!attr || (n && !pairs))
		return text_fail(-EINVAL, "attr or pairs is NULL");
	if (queues->attr.qp_type != SHMD_QP_TYPE_RC)
		return text_fail(-EINVAL, "DCIs have no peers of their own: see shmd_queues_connect() and shmd_peers_resolve()");
	job->queues = queues;
	job->client = queues->nic->client;
	job->attr = attr;
	job->world = world_of_pairs(attr);
	job->timeout_nsec = attr->timeout_nsec ? attr->timeout_nsec : job->client->timeout_nsec;
	job->deadline = nsec_add(nsec_now(), job->timeout_nsec);
	job->ends = calloc(n ? n : 1, sizeof(*job->ends));
	if (!job->ends)
		return text_fail(-ENOMEM, "no memory for %u pairs", n);
	job->n = n;
	for (unsigned int i = 0; i < n; i++) {
		job->ends[i].pair = &pairs[i];
		job->ends[i].n_qps = pairs[i].n_qps ? pairs[i].n_qps : 1;
		r = check_pair(queues, &pairs[i], job->ends[i].n_qps);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- the steps */

/* An earlier call that timed out may have left an entry of this session; no side needs it. */
static int publish_again(struct job *job, struct end *end, const struct pair_entry *entry, int fd)
{
	for (const struct end *other = job->ends; other < end; other++)
		if (other->pair->pe == end->pair->pe)
			return text_fail(-EINVAL, "PE %u stands in two pairs", end->pair->pe);
	if (shmd_unpublish(job->client, &job->world, job->attr->pe, end->pair->pe) < 0)
		return text_fail(-EEXIST, "another session connects PE %u with PE %u under tag %u", job->attr->pe,
				 end->pair->pe, job->attr->tag);
	return shmd_publish(job->client, &job->world, job->attr->pe, end->pair->pe, entry, sizeof(*entry), fd);
}

static int publish(struct job *job, struct end *end)
{
	_cleanup_close_ int fd = -1;
	struct pair_entry entry = {0};
	struct shmd_addr addr;
	int r = pair_page_new(end->n_qps, end->pair->data, end->pair->bytes, &end->own, &entry, &fd);

	for (unsigned int i = 0; !r && i < end->n_qps; i++) {
		r = shmd_queues_addr(job->queues, end->pair->first + i, &addr);
		if (!r)
			end->own->addrs[i] = addr;
	}
	if (!r)
		r = shmd_publish(job->client, &job->world, job->attr->pe, end->pair->pe, &entry, sizeof(entry), fd);
	if (r == -EEXIST)
		r = publish_again(job, end, &entry, fd);
	end->is_published = !r;
	end->nonce = entry.nonce;
	return r;
}

static int fetch_entry(const struct job *job, const struct end *end, struct pair_entry *entry, int *ret_fd,
		       uint64_t timeout_nsec)
{
	size_t bytes = sizeof(*entry);
	int r = shmd_fetch(job->client, &job->world, end->pair->pe, job->attr->pe, entry, &bytes, ret_fd, timeout_nsec);

	return !r && bytes != sizeof(*entry) ? -ENOBUFS : r;
}

static int is_absent(const struct job *job, const struct end *end)
{
	return text_fail(-ETIMEDOUT, "PE %u has not called shmd_pair_connect() for PE %u within %.1f s", end->pair->pe,
			 job->attr->pe, (double)job->timeout_nsec / (double)NSEC_PER_SEC);
}

static int map_peer(struct job *job, struct end *end)
{
	_cleanup_close_ int fd = -1;
	int r = fetch_entry(job, end, &end->peer_entry, &fd, time_left(job));

	if (r == -ENOENT)
		return is_absent(job, end);
	if (r == -ENOBUFS || (!r && fd < 0))
		return text_fail(-EPROTO, "PE %u uses a library whose pairs this one does not know", end->pair->pe);
	if (r < 0)
		return r;
	r = pair_page_map(&end->peer_entry, fd, &end->peer);
	return r < 0 ? text_fail(r, "the page that PE %u published: %s", end->pair->pe, strerror(-r)) : 0;
}

/* The page belongs to an earlier call, which has not ended yet and cannot connect with this one. */
static bool is_stale(const struct end *end)
{
	char why[sizeof(end->peer->why)];
	enum pair_state state = pair_page_state(end->peer, why);
	uint64_t answers = pair_page_answers(end->peer);

	return answers != end->nonce && (answers || state != PAIR_WAITS);
}

static int map_fresh_peer(struct job *job, struct end *end)
{
	for (uint32_t round = 0;; round++) {
		int r = map_peer(job, end);

		if (r < 0 || !is_stale(end))
			return r;
		pair_page_unmap(end->peer, end->peer_entry.n_qps, end->peer_entry.data_bytes);
		end->peer = NULL;
		if (!time_left(job))
			return is_absent(job, end);
		shmd_dev_host_relax(round);
	}
}

static int fetch(struct job *job, struct end *end)
{
	struct shmd_pair *pair = end->pair;
	int r = map_fresh_peer(job, end);

	if (r < 0)
		return r;
	/* First, so that the peer can read the reason if this side gives up. */
	pair_page_answer(end->own, end->peer_entry.nonce);
	if (end->peer_entry.n_qps != end->n_qps)
		return text_fail(-EINVAL, "PE %u pairs %u QPs, and PE %u pairs %u", pair->pe, end->peer_entry.n_qps,
				 job->attr->pe, end->n_qps);
	if (pair->peer_data && end->peer_entry.data_bytes > pair->peer_bytes)
		return text_fail(-ENOBUFS, "PE %u gave %u bytes, there is room for %zu", pair->pe, end->peer_entry.data_bytes,
				 pair->peer_bytes);
	if (pair->peer_data)
		memcpy(pair->peer_data, pair_page_data(end->peer, end->n_qps), end->peer_entry.data_bytes);
	pair->peer_bytes = end->peer_entry.data_bytes;
	return 0;
}

static int connect_end(struct job *job, struct end *end)
{
	_cleanup_free_ struct shmd_addr *addrs = calloc(end->n_qps, sizeof(*addrs));
	int r;

	if (!addrs)
		return text_fail(-ENOMEM, "no memory for %u addresses", end->n_qps);
	/* A copy, since the peer goes on writing; bounded by calloc, and by the page, which has as many. */
	memcpy(addrs, end->peer->addrs, end->n_qps * sizeof(*addrs));
	end->is_tried = true;
	r = shmd_queues_connect(job->queues, end->pair->first, end->n_qps, addrs, job->attr->params, &end->n_touched);
	if (!r)
		pair_page_set(end->own, PAIR_CONNECTED, NULL);
	return r;
}

/* ---- the other side */

/* 0: the peer has connected its QPs with those of this call. -EAGAIN: not yet. */
static int look(const struct end *end)
{
	char why[sizeof(end->peer->why)];

	switch (pair_page_state(end->peer, why)) {
	case PAIR_CONNECTED:
		return pair_page_answers(end->peer) == end->nonce ? 0 : -EAGAIN;
	case PAIR_GAVE_UP:
		return text_fail(-ECONNABORTED, "PE %u gave up: %s", end->pair->pe, why);
	default:
		return -EAGAIN;
	}
}

/* Asks the daemon whether the peer is still there, too. */
static int look_closely(const struct job *job, const struct end *end)
{
	struct pair_entry entry;
	int fetched = fetch_entry(job, end, &entry, NULL, 0), r;

	if (fetched < 0 && fetched != -ENOENT && fetched != -ENOBUFS)
		return fetched;
	/* The peer may have connected since, and then taken its entry back or published the next. */
	r = look(end);
	if (r == -EAGAIN && (fetched < 0 || entry.nonce != end->peer_entry.nonce))
		return text_fail(-ECONNABORTED, "PE %u ended before it was connected", end->pair->pe);
	return r;
}

static int await(const struct job *job, const struct end *end)
{
	uint64_t ask = nsec_add(nsec_now(), ASK_EVERY_NSEC);
	int r;

	for (uint32_t round = 0;; round++) {
		bool is_late = !time_left(job);

		r = look(end);
		if (r == -EAGAIN && (is_late || nsec_now() >= ask)) {
			r = look_closely(job, end);
			ask = nsec_add(nsec_now(), ASK_EVERY_NSEC);
		}
		if (r != -EAGAIN)
			return r;
		if (is_late)
			return text_fail(-ETIMEDOUT, "PE %u came, and has not connected its QPs within %.1f s", end->pair->pe,
					 (double)job->timeout_nsec / (double)NSEC_PER_SEC);
		shmd_dev_host_relax(round);
	}
}

/* ---- ending */

/* A request to a silent daemon takes the client's whole time limit: the clean-up makes only one. */
static int clean_up(struct job *job, int r)
{
	job->is_silent |= r == -ETIMEDOUT;
	return r;
}

/* Whether this call moved a QP that it could not connect. A QP in RTS belongs to an earlier connection. */
static bool is_half_way(struct job *job, unsigned int qp)
{
	struct shmd_qp_info info;

	return clean_up(job, shmd_queues_query(job->queues, qp, &info)) == 0 &&
	       (info.state == SHMD_QP_INIT || info.state == SHMD_QP_RTR);
}

static void reset_qps(struct job *job, struct end *end)
{
	if (end->is_tried && end->n_touched < end->n_qps && is_half_way(job, end->pair->first + end->n_touched))
		end->n_touched++;
	for (unsigned int i = 0; i < end->n_touched && !job->is_silent; i++)
		(void)clean_up(job, shmd_queues_modify(job->queues, end->pair->first + i, SHMD_QP_RST));
}

/* Waiting peers read the reason in this side's page, which is written before the entry is taken back. */
static void give_up(struct job *job, const char *why)
{
	for (unsigned int i = 0; i < job->n; i++)
		if (job->ends[i].own)
			pair_page_set(job->ends[i].own, PAIR_GAVE_UP, why);
	for (unsigned int i = 0; i < job->n && !job->is_silent; i++)
		reset_qps(job, &job->ends[i]);
}

static void job_deinit(struct job *job)
{
	for (unsigned int i = 0; i < job->n; i++) {
		struct end *end = &job->ends[i];

		if (end->is_published && !job->is_silent)
			(void)clean_up(job, shmd_unpublish(job->client, &job->world, job->attr->pe, end->pair->pe));
		if (end->own)
			pair_page_unmap(end->own, end->n_qps, end->pair->bytes);
		pair_page_unmap(end->peer, end->peer_entry.n_qps, end->peer_entry.data_bytes);
	}
	free(job->ends);
}

static int run(struct job *job)
{
	int r = 0;

	/* Every page first, so that no peer waits for another one. */
	for (unsigned int i = 0; !r && i < job->n; i++)
		r = publish(job, &job->ends[i]);
	for (unsigned int i = 0; !r && i < job->n; i++) {
		r = fetch(job, &job->ends[i]);
		if (!r)
			r = connect_end(job, &job->ends[i]);
	}
	for (unsigned int i = 0; !r && i < job->n; i++)
		r = await(job, &job->ends[i]);
	return r;
}

int shmd_pair_connect(struct shmd_queues *queues, const struct shmd_pair_attr *attr, struct shmd_pair *pairs, unsigned int n)
{
	struct job job = {0};
	char why[CLIENT_TEXT_BYTES];
	int r;

	text_copy(why, sizeof(why), shmd_error_text());
	r = job_init(&job, queues, attr, pairs, n);
	if (!r)
		r = run(&job);
	/* The first failure says most, and success leaves the earlier text. */
	if (r < 0) {
		text_copy(why, sizeof(why), shmd_error_text());
		give_up(&job, why);
	}
	job_deinit(&job);
	return text_fail(r, "%s", why);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* See fixture.h. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine-private.h"
#include "fixture.h"
#include "tests/lib/test.h"

#define RTR_SET                                                                                    \
	(ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN | ENGINE_QP_SET_RD_ATOMIC |                     \
	 ENGINE_QP_SET_RNR_TIMER)
#define ALL_REMOTE                                                                                 \
	(ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC)

/* ---- transport ---- */

static uint64_t now_nsec(void *owner)
{
	return ((struct node *)owner)->world->now_nsec;
}

static int route_get(void *owner, const uint8_t gid[16], void **ret_route)
{
	struct node *node = owner;

	if (gid[0] >= N_NODES)
		return -EHOSTUNREACH;
	node->world->n_routes++;
	*ret_route = &node->world->nodes[gid[0]];
	return 0;
}

static void route_put(void *owner, void *route)
{
	((struct node *)owner)->world->n_routes--;
}

/* The same packet once more, from the pool of the engine that it goes to. */
static void repeat(struct node *to, const struct engine_packet *pkt)
{
	struct engine_packet *again = packet_alloc(to->engine, 0);
	struct packet_pool *pool = again->pool;

	ASSERT(again);
	*again = *pkt;
	again->pool = pool;
	again->tenant = NULL;
	again->awaited = false;
	for (uint32_t i = 0; i < again->n_segs; i++)
		engine_mem_ref(again->segs[i].mem);
	list_add_tail(&to->inbox, &again->link);
}

static bool chance(struct world *w, unsigned int percent)
{
	return percent && test_random(&w->seed) % 100 < percent;
}

#define MOST_READ 4096u

/* Bytes of a packet, until nobody refers to them. */
struct bytes {
	struct engine_mem mem;
	uint8_t at[];
};

static void *bytes_pointer(struct engine_mem *mem, uint64_t offset, size_t n)
{
	return container_of(mem, struct bytes, mem)->at + offset;
}

static void bytes_free(struct engine_mem *mem)
{
	free(container_of(mem, struct bytes, mem));
}

static const struct engine_mem_ops bytes_ops = {.pointer = bytes_pointer, .free = bytes_free};

/* The packet that arrives. Both pieces lie in one piece of memory. */
static struct engine_packet *by_bytes(struct node *from, struct node *to, struct engine_packet *pkt)
{
	int n = engine_packet_bytes(pkt);
	struct engine_piece pieces[2];
	struct engine_packet *arrived;
	struct bytes *bytes;
	uint32_t source;

	if (n < 0)
		return pkt;
	bytes = malloc(sizeof(*bytes) + (size_t)n);
	ASSERT(bytes);
	engine_mem_init(&bytes->mem, &bytes_ops, (uint64_t)n);
	pieces[0] = (struct engine_piece){bytes->at, 1 + test_random(&from->world->seed) % (unsigned int)n};
	pieces[1] = (struct engine_piece){bytes->at + pieces[0].bytes, (size_t)n - pieces[0].bytes};
	engine_packet_write(from->engine, pkt, from->index, pieces);
	engine_packet_put(from->engine, pkt);
	if (!to->packets)
		to->packets = engine_packets_new(MOST_READ);
	ASSERT_OK(engine_packet_read(to->packets, pieces, &bytes->mem, &source, &arrived));
	engine_packet_set_source(arrived, &from->world->nodes[source]);
	engine_mem_unref(&bytes->mem);
	return arrived;
}

static int send(void *owner, void *route, struct engine_packet *pkt)
{
	struct world *w = ((struct node *)owner)->world;
	struct node *to = route;

	w->n_packets++;
	if (w->as_bytes)
		pkt = by_bytes(owner, to, pkt);
	if ((w->lose && w->lose(w, pkt, w->n_packets)) || chance(w, w->lose_percent)) {
		w->n_lost++;
		engine_packet_free(pkt);
		return 0;
	}
	if (chance(w, w->repeat_percent))
		repeat(to, pkt);
	if (chance(w, w->swap_percent) && !list_empty(&to->inbox))
		list_insert_after(to->inbox.prev->prev, &pkt->link);
	else
		list_add_tail(&to->inbox, &pkt->link);
	return 0;
}

static bool is_peer_behind(void *owner, void *route, uint32_t dest_qpn, uint32_t *stamp)
{
	const struct world *w = ((struct node *)owner)->world;

	return w->now_nsec < w->behind_until_nsec;
}

static void event(void *owner, const struct engine_event *ev)
{
	struct node *node = owner;

	if (node->n_events < MAX_EVENTS)
		node->events[node->n_events++] = *ev;
}

/* The route by the first byte of the GID, as for connected QPs, or by the LID; the GRH tells who asked. */
static int ud_path(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, uint32_t payload_bytes,
		   struct engine_ud_path *ret_path)
{
	bool is_long = be32toh(av->dqp_dct) & SHMD_AV_EXTENDED;
	unsigned int to = is_long ? av->rgid[0] : be16toh(av->rlid);
	struct node *node = owner;

	node->world->n_ud_paths++;
	if (to >= N_NODES)
		return -EHOSTUNREACH;
	ret_path->route = &node->world->nodes[to];
	ret_path->slid = (uint16_t)(0x40 + node->index);
	ret_path->sl = av->stat_rate_sl & 0xf;
	ret_path->has_grh = is_long;
	for (unsigned int i = 0; is_long && i < SHMD_GRH_BYTES; i++)
		ret_path->grh[i] = (uint8_t)(qpn + payload_bytes + i);
	return 0;
}

static int dc_route(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, void **ret_route)
{
	return route_get(owner, av->rgid, ret_route);
}

static int dc_route_back(void *owner, const void *source, void **ret_route)
{
	uint8_t gid[16] = {(uint8_t)((const struct node *)source)->index};

	return route_get(owner, gid, ret_route);
}

static uint16_t dc_slid(void *owner, const void *source)
{
	return (uint16_t)(0x40 + ((const struct node *)source)->index);
}

static int dc_source_gid(void *owner, const void *source, uint8_t ret_gid[16])
{
	memset(ret_gid, 0, 16);
	ret_gid[0] = (uint8_t)((const struct node *)source)->index;
	return 0;
}

static const struct engine_ops ops = {
	.now_nsec = now_nsec,
	.route_get = route_get,
	.route_put = route_put,
	.send = send,
	.is_peer_behind = is_peer_behind,
	.event = event,
	.ud_path = ud_path,
	.dc_route = dc_route,
	.dc_route_back = dc_route_back,
	.dc_slid = dc_slid,
	.dc_source_gid = dc_source_gid,
};

/* ---- the world ---- */

void world_new_engine(struct world *w, unsigned int node, uint32_t max_mws, void (*fault)(void *owner, enum engine_step step))
{
	struct engine_attr attr = {.max_qps = 1 << 12,
				   .max_cqs = 1 << 12,
				   .max_mrs = 1 << 12,
				   .max_srqs = 1 << 4,
				   .max_mws = max_mws,
				   .max_indirects = max_mws,
				   .chunk_bytes = w->chunk_bytes,
				   .self_route = &w->nodes[node],
				   .extension = &engine_extra};
	struct engine_ops mine = ops;

	mine.fault = fault;
	ASSERT_OK(engine_new(&attr, &mine, &w->nodes[node], &w->nodes[node].engine));
}

static void init(struct world *w, enum mem_mode mode, uint32_t chunk_bytes, uint32_t max_mws)
{
	memset(w, 0, sizeof(*w));
	w->mode = mode;
	w->chunk_bytes = chunk_bytes;
	w->now_nsec = 1000;
	w->seed = 42;
	w->delays.seed = 43;
	w->budget = 64;
	for (unsigned int i = 0; i < N_NODES; i++) {
		w->nodes[i].world = w;
		w->nodes[i].index = i;
		list_init(&w->nodes[i].inbox);
		world_new_engine(w, i, max_mws, NULL);
	}
}

void world_init_chunk(struct world *w, enum mem_mode mode, uint32_t chunk_bytes)
{
	init(w, mode, chunk_bytes, 0);
}

void world_init(struct world *w, enum mem_mode mode)
{
	init(w, mode, 4096, 0);
}

void world_init_windows(struct world *w, enum mem_mode mode, uint32_t max_mws)
{
	init(w, mode, 4096, max_mws);
}

void world_deinit(struct world *w)
{
	for (unsigned int i = 0; i < N_NODES; i++) {
		while (!list_empty(&w->nodes[i].inbox)) {
			struct list *link = w->nodes[i].inbox.next;

			list_del(link);
			engine_packet_free(engine_packet_from_link(link));
		}
	}
	for (unsigned int i = 0; i < N_NODES; i++)
		w->nodes[i].engine = engine_free(w->nodes[i].engine);
	for (unsigned int i = 0; i < N_NODES; i++)
		w->nodes[i].packets = engine_packets_free(w->nodes[i].packets);
	/* The engine gave back every reference: the test's is the last. */
	for (unsigned int i = 0; i < w->n_regions; i++)
		test_mem_deinit(&w->regions[i].mem);
	ASSERT_EQ(w->n_routes, 0);
}

/* A client's memory. */
void *world_alloc(struct world *w, size_t bytes)
{
	size_t whole = (bytes + 63) & ~(size_t)63;
	void *p = w->arena;

	if (p) {
		ASSERT_LE(whole, w->arena_left);
		w->arena += whole;
		w->arena_left -= whole;
	} else {
		p = aligned_alloc(64, whole);
	}
	ASSERT(p);
	memset(p, 0, bytes);
	return p;
}

void world_free(struct world *w, void *p)
{
	if (!w->arena)
		free(p);
}

static bool deliver(struct node *node)
{
	bool any = false;

	while (!list_empty(&node->inbox)) {
		struct list *link = node->inbox.next;

		list_del(link);
		engine_input(node->engine, engine_packet_from_link(link));
		any = true;
	}
	return any;
}

bool world_step(struct world *w)
{
	bool any = false;

	for (unsigned int i = 0; i < N_NODES; i++) {
		any |= deliver(&w->nodes[i]);
		any |= engine_progress(w->nodes[i].engine, w->budget) > 0;
		any |= engine_next_deadline(w->nodes[i].engine) == 0;
	}
	any |= delay_queue_run(&w->delays) > 0;
	return any;
}

void world_run(struct world *w)
{
	for (uint64_t i = 0; world_step(w); i++)
		ASSERT_LT(i, 100000000);
}

static uint64_t next_deadline(struct world *w)
{
	uint64_t first = UINT64_MAX;

	for (unsigned int i = 0; i < N_NODES; i++) {
		uint64_t t = engine_next_deadline(w->nodes[i].engine);

		first = t < first ? t : first;
	}
	return first;
}

void world_run_timers(struct world *w, uint64_t nsec)
{
	uint64_t end = w->now_nsec + nsec;

	for (;;) {
		uint64_t next;

		world_run(w);
		next = next_deadline(w);
		if (next > end)
			break;
		w->now_nsec = next > w->now_nsec ? next : w->now_nsec + 1;
	}
	w->now_nsec = end;
	world_run(w);
}

unsigned int world_count_events(const struct node *node, enum engine_event_kind kind)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < node->n_events; i++)
		n += node->events[i].kind == kind;
	return n;
}

void region_register(struct region *r, uint32_t access, uint32_t pdn)
{
	struct engine_mr_attr attr = {.key = r->key,
				      .pdn = pdn,
				      .access = access,
				      .iova = r->iova,
				      .length_bytes = r->size_bytes,
				      .mem = &r->mem.mem,
				      .mem_offset = 64};

	ASSERT_OK(engine_mr_create(r->node->engine, &attr));
	r->registered = true;
}

static enum mem_mode mode_of(const struct world *w, unsigned int node)
{
	return w->mode == MEM_QUEUE && node == 0 ? MEM_POINTER : w->mode;
}

struct region *region_new_attr(struct world *w, unsigned int node, uint64_t size_bytes,
			       uint32_t access, uint32_t pdn)
{
	struct region *r = &w->regions[w->n_regions];

	ASSERT_LT(w->n_regions, MAX_REGIONS);
	r->node = &w->nodes[node];
	/* The region lies inside its memory, so that an offset that is not added shows. */
	test_mem_init(&r->mem, mode_of(w, node), size_bytes + 128, &w->delays, w->arena ? world_alloc(w, size_bytes + 128) : NULL);
	r->bytes = r->mem.bytes + 64;
	r->size_bytes = size_bytes;
	r->iova = 0x10000000ull * (w->n_regions + 1);
	r->key = 0x1000 + w->n_regions * 0x11;
	region_register(r, access, pdn);
	w->n_regions++;
	return r;
}

struct region *region_new(struct world *w, unsigned int node, uint64_t size_bytes)
{
	return region_new_attr(w, node, size_bytes, ENGINE_ACCESS_LOCAL_WRITE | ALL_REMOTE, 1);
}

void region_fill(struct region *r, uint64_t seed)
{
	for (uint64_t i = 0; i < r->size_bytes; i++)
		r->bytes[i] = (uint8_t)(i % 8 ? r->bytes[i - 1] * 5u + 1 : test_random(&seed));
}

void region_dereg(struct region *r)
{
	ASSERT_OK(engine_mr_destroy(r->node->engine, r->key));
	r->registered = false;
}

/* ---- queues ---- */

void tcq_init(struct tcq *cq, struct node *node, uint32_t cqn, uint32_t log2_entries,
	      uint32_t flags)
{
	size_t entries = flags & ENGINE_CQ_COLLAPSED ? 1 : (size_t)1 << log2_entries;
	struct engine_cq_attr attr = {.cqn = cqn, .log2_entries = log2_entries, .flags = flags, .ledger = node->ledger};

	*cq = (struct tcq){.node = node, .cqn = cqn, .log2_entries = log2_entries, .flags = flags};
	cq->ring = world_alloc(node->world, entries * SHMD_CQE_BYTES);
	cq->dbrec = world_alloc(node->world, sizeof(*cq->dbrec));
	attr.ring = cq->ring;
	attr.dbrec = cq->dbrec;
	cq->attr = attr;
	ASSERT_OK(engine_cq_create(node->engine, &attr));
}

void tcq_deinit(struct tcq *cq)
{
	ASSERT_OK(engine_cq_destroy(cq->node->engine, cq->cqn));
	world_free(cq->node->world, cq->ring);
	world_free(cq->node->world, cq->dbrec);
}

bool tcq_poll(struct tcq *cq, struct shmd_cqe *ret_cqe)
{
	uint32_t index = cq->ci & ((1u << cq->log2_entries) - 1);
	struct shmd_cqe *cqe =
		(struct shmd_cqe *)(void *)(cq->ring + (size_t)index * SHMD_CQE_BYTES);
	/* The last word of the entry, as device functions read it. */
	uint64_t tail = be64toh(__atomic_load_n((uint64_t *)(void *)cqe + 7, __ATOMIC_ACQUIRE));
	uint8_t op_own = (uint8_t)tail;

	if (op_own >> 4 == SHMD_CQE_INVALID || (op_own & 1) != ((cq->ci >> cq->log2_entries) & 1))
		return false;
	*ret_cqe = *cqe;
	cq->ci++;
	__atomic_store_n(&cq->dbrec->rcv, htobe32(cq->ci & 0xffffff), __ATOMIC_RELEASE);
	return true;
}

void tcq_expect_none(struct tcq *cq)
{
	struct shmd_cqe cqe;

	ASSERT(!tcq_poll(cq, &cqe));
}

void tqp_init(struct tqp *qp, struct world *w, unsigned int node, const struct tqp_attr *attr)
{
	static uint32_t next_number = 0x100;
	struct node *n = &w->nodes[node];
	struct engine_qp_attr create;

	*qp = (struct tqp){.node = n,
			   .qpn = next_number++,
			   .log2_sq = attr->log2_sq,
			   .log2_rq = attr->log2_rq,
			   .log2_stride = 6,
			   .type = attr->type,
			   .pdn = attr->pdn};
	tcq_init(&qp->scq, n, next_number++, attr->log2_cq, attr->cq_flags);
	tcq_init(&qp->rcq, n, next_number++, attr->log2_cq, 0);
	qp->sq = world_alloc(w, (size_t)64 << qp->log2_sq);
	qp->rq = world_alloc(w, (size_t)1 << (qp->log2_rq + qp->log2_stride));
	qp->dbrec = world_alloc(w, sizeof(*qp->dbrec));
	create = (struct engine_qp_attr){
		.qpn = qp->qpn,
		.type = attr->type,
		.pdn = attr->pdn,
		.user_index = qp->qpn + 0x10000,
		.sq_ring = qp->sq,
		.log2_sq_wqebbs = qp->log2_sq,
		.rq_ring = qp->rq,
		.log2_rq_wqes = qp->log2_rq,
		.log2_rq_stride = qp->log2_stride,
		.dbrec = qp->dbrec,
		.send_cqn = qp->scq.cqn,
		.recv_cqn = qp->rcq.cqn,
		.has_streams = attr->has_streams,
		.log2_errored_streams = attr->log2_errored_streams,
		.ledger = n->ledger,
	};
	if (attr->srq) {
		create.has_srq = true;
		create.srqn = attr->srq->srqn;
		create.srqn_in_cqes = attr->srqn_in_cqes;
		create.rq_ring = NULL;
	}
	if (attr->type == ENGINE_QP_DCI || attr->type == ENGINE_QP_XRC_INI)
		create.rq_ring = NULL;
	if (attr->type == ENGINE_QP_XRC_TGT) {
		create.sq_ring = create.rq_ring = create.dbrec = NULL;
		create.xrcdn = attr->xrcdn;
	}
	if (attr->type == ENGINE_QP_DCT)
		create.sq_ring = create.dbrec = NULL;
	qp->attr = create;
	ASSERT_OK(engine_qp_create(n->engine, &create));
}

void tqp_deinit(struct tqp *qp)
{
	ASSERT_OK(engine_qp_destroy(qp->node->engine, qp->qpn));
	tcq_deinit(&qp->scq);
	tcq_deinit(&qp->rcq);
	world_free(qp->node->world, qp->sq);
	world_free(qp->node->world, qp->rq);
	world_free(qp->node->world, qp->dbrec);
}

int tqp_to_init(struct tqp *qp, const struct tqp_attr *attr)
{
	struct engine_qp_modify mod = {.state = ENGINE_QP_INIT,
				       .set = ENGINE_QP_SET_ACCESS,
				       .access = attr->access ? attr->access : ALL_REMOTE,
				       .qkey = attr->qkey,
				       .dc_key = attr->dc_key};

	if (qp->type == ENGINE_QP_UD)
		mod.set = ENGINE_QP_SET_QKEY;
	if (qp->type == ENGINE_QP_DCT)
		mod.set = ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_DC_KEY;
	return engine_qp_modify(qp->node->engine, qp->qpn, &mod);
}

int tqp_to_rtr(struct tqp *qp, const struct tqp *peer, const struct tqp_attr *attr)
{
	struct engine_qp_modify mod = {
		.state = ENGINE_QP_RTR,
		.set = RTR_SET,
		.dest_gid = {(uint8_t)peer->node->index},
		.dest_qpn = peer->qpn,
		.path_mtu_bytes = 4096,
		.rq_psn = attr->psn,
		.min_rnr_timer = attr->rnr_timer,
		.max_dest_rd_atomic = 16,
	};

	if (qp->type == ENGINE_QP_UC || qp->type == ENGINE_QP_XRC_INI)
		mod.set = ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN;
	if (qp->type == ENGINE_QP_UD)
		mod.set = 0;
	return engine_qp_modify(qp->node->engine, qp->qpn, &mod);
}

int tqp_to_rts(struct tqp *qp, const struct tqp_attr *attr)
{
	struct engine_qp_modify mod = {
		.state = ENGINE_QP_RTS,
		.set = ENGINE_QP_SET_RETRY | ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RD_ATOMIC,
		.sq_psn = attr->psn,
		.timeout = attr->timeout,
		.retry_count = attr->retry_count,
		.rnr_retry = attr->rnr_retry,
		.max_rd_atomic = attr->max_rd_atomic,
	};

	if (qp->type == ENGINE_QP_UC || qp->type == ENGINE_QP_UD || qp->type == ENGINE_QP_XRC_TGT)
		mod.set = ENGINE_QP_SET_SQ_PSN;
	return engine_qp_modify(qp->node->engine, qp->qpn, &mod);
}

int tqp_to(struct tqp *qp, enum engine_qp_state state)
{
	struct engine_qp_modify mod = {.state = state};

	return engine_qp_modify(qp->node->engine, qp->qpn, &mod);
}

static int dct_to_rtr(struct tqp *qp, const struct tqp_attr *attr)
{
	struct engine_qp_modify mod = {
		.state = ENGINE_QP_RTR,
		.set = ENGINE_QP_SET_RNR_TIMER | ENGINE_QP_SET_RD_ATOMIC,
		.min_rnr_timer = attr->rnr_timer,
		.max_dest_rd_atomic = 16,
	};

	return engine_qp_modify(qp->node->engine, qp->qpn, &mod);
}

void tqp_start_dc(struct tqp *qp, const struct tqp_attr *attr)
{
	ASSERT_OK(tqp_to_init(qp, attr));
	if (qp->type == ENGINE_QP_DCT) {
		ASSERT_OK(dct_to_rtr(qp, attr));
		return;
	}
	ASSERT_OK(tqp_to(qp, ENGINE_QP_RTR));
	ASSERT_OK(tqp_to_rts(qp, attr));
}

void tqp_connect(struct tqp *a, struct tqp *b, const struct tqp_attr *attr)
{
	ASSERT_OK(tqp_to_init(a, attr));
	ASSERT_OK(tqp_to_rtr(a, b, attr));
	ASSERT_OK(tqp_to_rts(a, attr));
}

struct engine_qp_info tqp_info(const struct tqp *qp)
{
	struct engine_qp_info info;

	ASSERT_OK(engine_qp_query(qp->node->engine, qp->qpn, &info));
	return info;
}

void pair_init_nodes(struct pair *p, struct world *w, unsigned int a, unsigned int b,
		     const struct tqp_attr *attr)
{
	p->w = w;
	tqp_init(&p->a, w, a, attr);
	tqp_init(&p->b, w, b, attr);
	tqp_connect(&p->a, &p->b, attr);
	tqp_connect(&p->b, &p->a, attr);
}

void pair_init(struct pair *p, struct world *w, const struct tqp_attr *attr)
{
	pair_init_nodes(p, w, 0, 1, attr);
}

void pair_deinit(struct pair *p)
{
	tqp_deinit(&p->a);
	tqp_deinit(&p->b);
}

void setup_init(struct setup *s, enum mem_mode mode, uint64_t region_bytes, const struct tqp_attr *attr)
{
	world_init(&s->w, mode);
	setup_fill(s, region_bytes, attr);
}

void setup_fill(struct setup *s, uint64_t region_bytes, const struct tqp_attr *attr)
{
	const struct tqp_attr defaults = TQP_ATTR;

	s->local = region_new(&s->w, 0, region_bytes);
	s->remote = region_new(&s->w, 1, region_bytes);
	region_fill(s->local, 1);
	pair_init(&s->p, &s->w, attr ? attr : &defaults);
}

void setup_deinit(struct setup *s)
{
	pair_deinit(&s->p);
	world_deinit(&s->w);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues and their events.
 *
 * A CQ that is armed for any completion has its event when there is a CQE at the consumer index of
 * the arm record, be it older or newer than the arming: hardware compares the two indexes. Arming for
 * solicited completions is the engine's. At creation the arm record gets a value that no arming has,
 * so that the first one, whose record is zero, is seen even when its doorbell was covered by another
 * CQ's.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "tests/mlx5sim/sim/fw.h"

#define NEVER_ARMED 0xffffffffu
#define SOLICITED_ONLY 0x01000000u
#define LARGE_CQE_BYTES                                                                            \
	128u /* the CQE is the second half; padded or not, nothing is in the first */
#define MAX_MODERATE_USEC 0xfffu

static uint32_t arm_word(const struct cq *cq)
{
	return be32toh(__atomic_load_n(&cq->dbrec[1], __ATOMIC_ACQUIRE));
}

void cq_arm_seen(struct nic *nic, const struct uar *uar, uint32_t cqn)
{
	struct cq *cq;

	list_for_each_entry (cq, &uar->cqs, uar_link) {
		uint32_t word = arm_word(cq);

		if (word == NEVER_ARMED || (word == cq->arm_seen && cq->cqn != cqn))
			continue;
		cq->arm_seen = word;
		if (word & SOLICITED_ONLY)
			continue;
		cq->armed = true;
		cq->armed_ci = word & 0xffffff;
		if (list_empty(&cq->armed_link))
			list_add_tail(&nic->armed_cqs, &cq->armed_link);
	}
}

static void send_completion(struct cq *cq)
{
	struct ib_uverbs_comp_event_desc event = {.cq_handle = cq->user_handle};

	cq->armed = false;
	cq->first_cqe_nsec = 0;
	list_del(&cq->armed_link);
	event_send(&cq->object, FW_EVENT_COMPLETION);
	if (cq->channel && channel_send(cq->channel, &event, sizeof(event)))
		cq->n_comp_events++;
}

static bool has_cqe_at(const struct cq *cq, uint32_t ci)
{
	uint32_t entries = 1u << cq->log2_entries;
	uint8_t op_own =
		__atomic_load_n(cq->ring + (size_t)((ci & (entries - 1)) + 1) * cq->entry_bytes - 1,
				__ATOMIC_ACQUIRE);

	return op_own >> 4 != 0xf && (op_own & 1) == ((ci >> cq->log2_entries) & 1);
}

static bool event_is_due(struct cq *cq, uint64_t now_nsec)
{
	if (!has_cqe_at(cq, cq->armed_ci))
		return false;
	if (!cq->first_cqe_nsec)
		cq->first_cqe_nsec = now_nsec;
	if (cq->moderate_count > 1 && has_cqe_at(cq, cq->armed_ci + cq->moderate_count - 1))
		return true;
	return now_nsec - cq->first_cqe_nsec >= cq->moderate_nsec;
}

void cq_notify_armed(struct nic *nic, uint64_t now_nsec)
{
	struct cq *cq, *next;

	list_for_each_entry_safe(cq, next, &nic->armed_cqs, armed_link)
	{
		if (!cq->collapsed && event_is_due(cq, now_nsec))
			send_completion(cq);
	}
}

void cq_engine_event(struct nic *nic, const struct engine_event *ev)
{
	struct cq *cq = hash_get(&nic->cqs_by_number, ev->number);
	struct ib_uverbs_async_event_desc event = {0};
	uint32_t word;

	if (!cq)
		return;
	if (ev->kind == ENGINE_EVENT_CQ_COMPLETION) {
		word = arm_word(cq);
		/* In a collapsed CQ there is no telling which CQE is new: any is. */
		if (word != NEVER_ARMED && ((word & SOLICITED_ONLY) || (cq->collapsed && cq->armed)))
			send_completion(cq);
		return;
	}
	event_send(&cq->object, FW_EVENT_CQ_ERROR);
	if (cq->object.type != OBJECT_CQ)
		return;
	event.element = cq->user_handle;
	event.event_type = IBV_EVENT_CQ_ERR;
	if (cq->object.ufile->async && channel_send(cq->object.ufile->async, &event, sizeof(event)))
		cq->n_async_events++;
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void cq_free(struct object *object)
{
	struct cq *cq = container_of(object, struct cq, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	if (cq->cqn) {
		engine_cq_destroy(nic->engine, cq->cqn);
		hash_remove(&nic->cqs_by_number, cq->cqn);
		nic->n_cqs--;
	}
	list_del(&cq->uar_link);
	list_del(&cq->armed_link);
	sim_unlock(nic->sim);
	if (cq->uar)
		cq->uar->object.users--;
	if (cq->channel)
		cq->channel->object.users--;
	memory_unref(cq->ring_memory);
	memory_unref(cq->dbrec_memory);
	umem_put(cq->ring_umem);
	umem_put(cq->dbrec_umem);
	free(cq);
}

struct cq_params {
	struct mlx5_ib_create_cq driver;
	uint32_t log2_entries;
};

/* One format, which CQEs may be compressed in and never are. */
static bool compression_is_known(const struct mlx5_ib_create_cq *driver)
{
	uint8_t format = driver->cqe_comp_res_format;

	if (!driver->cqe_comp_en)
		return !format;
	return driver->cqe_comp_en == 1 &&
	       (format == MLX5_IB_CQE_RES_FORMAT_HASH || format == MLX5_IB_CQE_RES_FORMAT_CSUM ||
		format == MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX);
}

static int read_params(struct call *call, struct cq_params *ret)
{
	uint64_t entries = call_u64(call, UVERBS_ATTR_CREATE_CQ_CQE);
	uint64_t flags = call_u64(call, UVERBS_ATTR_CREATE_CQ_FLAGS);
	const struct mlx5_ib_create_cq *driver = &ret->driver;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_UHW_IN, &ret->driver, sizeof(ret->driver));
	if (r < 0)
		return r;
	if (!entries || entries > SIM_MAX_CQE)
		return call_refuse(call, -EINVAL, "%llu entries", (unsigned long long)entries);
	ret->log2_entries =
		(uint32_t)(64 -
			   __builtin_clzll(entries)); /* 2^n > entries: one more than asked for */
	if (ret->log2_entries > 22)
		return call_refuse(call, -EINVAL, "%llu entries", (unsigned long long)entries);
	if (flags & ~(uint64_t)(IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN |
				IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION))
		return call_refuse(call, -EINVAL, "unknown flags 0x%llx",
				   (unsigned long long)flags);
	if (call_u64(call, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR))
		return call_refuse(call, -EINVAL, "completion vector");
	if (driver->cqe_size != SHMD_CQE_BYTES && driver->cqe_size != LARGE_CQE_BYTES)
		return call_refuse(call, -EOPNOTSUPP, "CQEs of %u bytes", driver->cqe_size);
	if (!compression_is_known(driver))
		return call_refuse(call, -EINVAL, "compression %u of format %u", driver->cqe_comp_en,
				   driver->cqe_comp_res_format);
	if (driver->reserved0 || driver->reserved1)
		return call_refuse(call, -EINVAL, "reserved bits");
	if ((driver->flags & MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD) &&
	    driver->cqe_size != LARGE_CQE_BYTES)
		return call_refuse(call, -EINVAL, "padding of CQEs of %u bytes", driver->cqe_size);
	if ((driver->flags & ~MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD) !=
	    MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX)
		return call_refuse(call, -EOPNOTSUPP, "driver flags 0x%x", driver->flags);
	if (driver->db_addr & 7)
		return call_refuse(call, -EINVAL, "the doorbell record is not aligned");
	if (nic_count(call->nic, &call->nic->n_cqs) >= SIM_MAX_CQ)
		return call_refuse(call, -ENOMEM, "more than %u CQs", SIM_MAX_CQ);
	return 0;
}

static int find_parts(struct call *call, struct cq *cq, const struct cq_params *params)
{
	struct object *object;

	cq->uar = uar_get(call->ufile, params->driver.uar_page_index);
	if (!cq->uar)
		return call_refuse(call, -EINVAL, "UAR page 0x%x is not of this context",
				   params->driver.uar_page_index);
	cq->uar->object.users++;
	if (!call_has(call, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL))
		return 0;
	/* By descriptor: the channel whose other end it is. */
	object = channel_of_fd(call, (int)call_u64(call, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL));
	if (!object)
		return call_refuse(call, -EBADF, "no completion channel of this context");
	cq->channel = container_of(object, struct channel, object);
	object->users++;
	return 0;
}

int cq_enter(struct cq *cq, uint32_t flags)
{
	struct nic *nic = cq->object.ufile->nic;
	struct engine_cq_attr attr = {
		.log2_entries = cq->log2_entries,
		.flags = flags,
		.entry_bytes = cq->entry_bytes,
		.ring = (void *)(uintptr_t)cq->ring,
		.dbrec = cq->dbrec,
		.filled = cq->ring_umem, /* a command does not touch the ring: its maker fills it */
	};
	int r;

	__atomic_store_n(&cq->dbrec[1], htobe32(NEVER_ARMED), __ATOMIC_RELEASE);
	cq->arm_seen = NEVER_ARMED;
	sim_lock(nic->sim);
	attr.cqn = nic->next_cqn++;
	r = engine_cq_create(nic->engine, &attr);
	if (r == 0) {
		cq->cqn = attr.cqn;
		nic->n_cqs++;
		list_add_tail(&cq->uar->cqs, &cq->uar_link);
		r = hash_add(&nic->cqs_by_number, cq->cqn, cq);
	}
	sim_unlock(nic->sim);
	return r < 0 ? r : object_name(&cq->object, PRM_OP_CREATE_CQ, cq->cqn);
}

static int make(struct call *call, struct cq *cq, const struct cq_params *params)
{
	bool ignore =
		!!(call_u64(call, UVERBS_ATTR_CREATE_CQ_FLAGS) & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN);
	int r;

	r = find_parts(call, cq, params);
	if (r == 0)
		r = memory_pin(call, params->driver.buf_addr,
			       (uint64_t)params->driver.cqe_size << params->log2_entries, true,
			       &cq->ring_memory);
	if (r == 0)
		r = memory_pin(call, params->driver.db_addr, 8, true, &cq->dbrec_memory);
	if (r < 0)
		return r;
	cq->user_handle = call_u64(call, UVERBS_ATTR_CREATE_CQ_USER_HANDLE);
	cq->ring = memory_at(cq->ring_memory, params->driver.buf_addr);
	cq->dbrec = memory_at(cq->dbrec_memory, params->driver.db_addr);
	cq->log2_entries = params->log2_entries;
	cq->entry_bytes = params->driver.cqe_size;
	return cq_enter(cq, ignore ? ENGINE_CQ_OVERRUN_IGNORE : 0);
}

static int answer(struct call *call, const struct cq *cq)
{
	struct mlx5_ib_create_cq_resp driver = {.cqn = cq->cqn};
	uint32_t entries = (1u << cq->log2_entries) - 1;
	int r;

	r = call_out(call, UVERBS_ATTR_CREATE_CQ_RESP_CQE, &entries, sizeof(entries));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	return r < 0 ? r : call_set_handle(call, UVERBS_ATTR_CREATE_CQ_HANDLE, cq->object.handle);
}

int cq_new(struct call *call, enum object_type type, struct cq **ret_cq)
{
	struct cq *cq = calloc(1, sizeof(*cq));
	int r;

	if (!cq)
		return -ENOMEM;
	list_init(&cq->uar_link);
	list_init(&cq->armed_link);
	r = object_add(call->ufile, &cq->object, type, cq_free);
	if (r < 0) {
		free(cq);
		return r;
	}
	*ret_cq = cq;
	return 0;
}

int cq_create(struct call *call)
{
	struct cq_params params;
	struct cq *cq = NULL;
	int r;

	r = read_params(call, &params);
	if (r == 0)
		r = cq_new(call, OBJECT_CQ, &cq);
	if (r < 0)
		return r;
	r = make(call, cq, &params);
	if (r == 0)
		r = answer(call, cq);
	if (r < 0)
		object_destroy(&cq->object);
	return r;
}

static bool comp_event_is_of(const void *event, const void *of)
{
	return ((const struct ib_uverbs_comp_event_desc *)event)->cq_handle ==
	       ((const struct cq *)of)->user_handle;
}

static bool async_event_is_of(const void *event, const void *of)
{
	return ((const struct ib_uverbs_async_event_desc *)event)->element ==
	       ((const struct cq *)of)->user_handle;
}

int cq_destroy(struct call *call)
{
	struct object *object =
		object_get(call->ufile, OBJECT_CQ, call_u64(call, UVERBS_ATTR_DESTROY_CQ_HANDLE));
	struct ib_uverbs_destroy_cq_resp resp = {0};
	struct cq *cq;

	if (!object)
		return call_refuse(call, -ENOENT, "no such CQ");
	if (object->users)
		return call_refuse(call, -EBUSY, "%u QPs and SRQs use it", object->users);
	cq = container_of(object, struct cq, object);
	sim_lock(call->nic->sim);
	list_del(&cq->uar_link);
	list_del(&cq->armed_link);
	resp.comp_events_reported = cq->n_comp_events;
	resp.async_events_reported = cq->n_async_events;
	if (cq->channel)
		resp.comp_events_reported -=
			channel_withdraw(cq->channel, sizeof(struct ib_uverbs_comp_event_desc),
					 comp_event_is_of, cq);
	if (call->ufile->async)
		resp.async_events_reported -= channel_withdraw(
			call->ufile->async, sizeof(struct ib_uverbs_async_event_desc),
			async_event_is_of, cq);
	sim_unlock(call->nic->sim);
	object_destroy(object);
	return call_out(call, UVERBS_ATTR_DESTROY_CQ_RESP, &resp, sizeof(resp));
}

/* ---- changes --------------------------------------------------------------------------------------------------- */

static struct cq *find_cq(struct call *call, uint32_t handle)
{
	struct object *object = object_get(call->ufile, OBJECT_CQ, handle);

	return object ? container_of(object, struct cq, object) : NULL;
}

static int move_ring(struct call *call, struct cq *cq, uint64_t addr, uint32_t log2_entries)
{
	struct memory *memory;
	void *ring;
	int r;

	r = memory_pin(call, addr, (uint64_t)cq->entry_bytes << log2_entries, true, &memory);
	if (r < 0)
		return r;
	ring = memory_at(memory, addr);
	sim_lock(call->nic->sim);
	nic_catch_up(call->nic->sim);
	r = engine_cq_resize(call->nic->engine, cq->cqn, ring, log2_entries);
	if (r == 0) {
		cq->ring = ring;
		cq->log2_entries = log2_entries;
	}
	sim_unlock(call->nic->sim);
	if (r < 0) {
		memory_unref(memory);
		return call_refuse(call, -EINVAL,
				   "the CQEs that are there need more than %u entries",
				   1u << log2_entries);
	}
	memory_unref(cq->ring_memory);
	cq->ring_memory = memory;
	return 0;
}

int write_resize_cq(struct call *call)
{
	struct ib_uverbs_resize_cq_resp resp = {0};
	struct ib_uverbs_resize_cq cmd;
	struct mlx5_ib_resize_cq driver;
	uint32_t log2_entries;
	struct cq *cq;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r == 0)
		r = call_in_struct(call, UVERBS_ATTR_UHW_IN, &driver, sizeof(driver));
	if (r < 0)
		return r;
	cq = find_cq(call, cmd.cq_handle);
	if (!cq)
		return call_refuse(call, -EINVAL, "no such CQ");
	if (!cmd.cqe || cmd.cqe > SIM_MAX_CQE)
		return call_refuse(call, -EINVAL, "%u entries", cmd.cqe);
	if (driver.cqe_size != cq->entry_bytes || driver.reserved0 || driver.reserved1)
		return call_refuse(call, -EINVAL, "CQEs of %u bytes or reserved bits",
				   driver.cqe_size);
	log2_entries = 32 - (uint32_t)__builtin_clz(cmd.cqe);
	r = move_ring(call, cq, driver.buf_addr, log2_entries);
	resp.cqe = (1u << log2_entries) - 1;
	return r < 0 ? r : call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}

int write_ex_modify_cq(struct call *call)
{
	struct ib_uverbs_ex_modify_cq cmd;
	struct cq *cq;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r < 0)
		return r;
	cq = find_cq(call, cmd.cq_handle);
	if (!cq)
		return call_refuse(call, -EINVAL, "no such CQ");
	if (cmd.attr_mask != IBV_CQ_ATTR_MODERATE || cmd.reserved)
		return call_refuse(call, -EOPNOTSUPP, "mask 0x%x or reserved bits", cmd.attr_mask);
	if (cmd.attr.cq_period > MAX_MODERATE_USEC)
		return call_refuse(call, -EINVAL, "a period of %u us", cmd.attr.cq_period);
	sim_lock(call->nic->sim);
	cq->moderate_count = cmd.attr.cq_count;
	cq->moderate_nsec = (uint64_t)cmd.attr.cq_period * 1000;
	sim_unlock(call->nic->sim);
	return 0;
}

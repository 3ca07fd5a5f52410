/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of nvshmem-sass-ours.cu through NVSHMEM, for nvshmem-sass.py, in three depths:
 *
 *	public	the public call: P2P check, IBGDA, and the proxy as the other branch
 *	ibgda	the function that IBGDA provides for the call: address and key look-up, choice of QP, then the queue
 *	parts	the queue alone: QP, addresses and keys are given, one request of at most 1 GiB, no lanes together
 */
#include <device_host/nvshmem_common.cuh>
#include <device_host_transport/nvshmem_common_ibgda.h>

/* Theirs is external, for relocatable code only; here both sides are whole programs. */
static __constant__ nvshmemi_ibgda_device_state_t nvshmemi_ibgda_device_state_d;

#include <nvshmem.h>
#include <nvshmemx.h>

typedef nvshmemi_ibgda_device_qp_t theirs_qp;

/* Arguments of a WQE: remote address and key, local address and key, bytes. */
struct theirs_request {
	uint64_t raddr, laddr;
	uint32_t rkey, lkey;
	uint32_t bytes;
};

#define KERNEL extern "C" __global__ void

KERNEL via_public_p(uint64_t *dst, uint64_t value, int pe)
{
	nvshmem_uint64_p(dst, value, pe);
}

KERNEL via_public_put(char *dst, const char *src, size_t bytes, int pe)
{
	nvshmem_putmem(dst, src, bytes, pe);
}

KERNEL via_public_put_nbi(char *dst, const char *src, size_t bytes, int pe)
{
	nvshmem_putmem_nbi(dst, src, bytes, pe);
}

KERNEL via_public_put_signal(char *dst, const char *src, size_t bytes, uint64_t *word,
			     uint64_t value, int pe)
{
	nvshmem_putmem_signal(dst, src, bytes, word, value, NVSHMEM_SIGNAL_ADD, pe);
}

KERNEL via_public_put_signal_nbi(char *dst, const char *src, size_t bytes, uint64_t *word,
				 uint64_t value, int pe)
{
	nvshmem_putmem_signal_nbi(dst, src, bytes, word, value, NVSHMEM_SIGNAL_ADD, pe);
}

KERNEL via_public_quiet(void)
{
	nvshmem_quiet();
}

/* Their internal functions exist in the device pass only. */
#ifdef __CUDA_ARCH__
#define DEVICE(...) __VA_ARGS__
#else
#define DEVICE(...)
#endif

KERNEL via_ibgda_p(uint64_t *dst, uint64_t value, int pe)
{
	DEVICE(nvshmemi_ibgda_rma_p<uint64_t>(dst, value, pe);)
}

KERNEL via_ibgda_put(char *dst, char *src, size_t bytes, int pe)
{
	DEVICE((nvshmemi_ibgda_rma<NVSHMEMI_THREADGROUP_THREAD, NVSHMEMI_OP_PUT>(dst, src, bytes,
										 pe));)
}

KERNEL via_ibgda_put_nbi(char *dst, char *src, size_t bytes, int pe)
{
	DEVICE((nvshmemi_ibgda_rma_nbi<NVSHMEMI_THREADGROUP_THREAD, NVSHMEMI_OP_PUT>(dst, src,
										     bytes, pe));)
}

KERNEL via_ibgda_put_signal(char *dst, char *src, size_t bytes, uint64_t *word, uint64_t value,
			    int pe)
{
	DEVICE(nvshmemi_ibgda_put_signal<NVSHMEMI_THREADGROUP_THREAD>(
		       dst, src, bytes, word, value, NVSHMEMI_AMO_SIGNAL_ADD, pe, false);)
}

KERNEL via_ibgda_put_signal_nbi(char *dst, char *src, size_t bytes, uint64_t *word, uint64_t value,
				int pe)
{
	DEVICE(nvshmemi_ibgda_put_signal<NVSHMEMI_THREADGROUP_THREAD>(
		       dst, src, bytes, word, value, NVSHMEMI_AMO_SIGNAL_ADD, pe, true);)
}

KERNEL via_ibgda_quiet(void)
{
	DEVICE(nvshmemi_ibgda_quiet<NVSHMEMI_THREADGROUP_THREAD>();)
}

#ifdef __CUDA_ARCH__
/* The place where their writers put a WQE: its WQEBB and the next. On RC a write and an add take one each. */
static __device__ __forceinline__ void find_slots(theirs_qp *qp, uint64_t index, void **slots)
{
	slots[0] = ibgda_get_wqe_ptr(qp, (uint16_t)index);
	slots[1] = ibgda_get_wqe_ptr(qp, (uint16_t)(index + 1));
}

static __device__ __forceinline__ void write_data(theirs_qp *qp, const struct theirs_request *r,
						  uint64_t index, uint8_t flags)
{
	void *slots[2];

	find_slots(qp, index, slots);
	ibgda_write_rdma_write_wqe<false>(qp, nullptr, r->laddr, r->lkey, r->raddr, r->rkey,
					  r->bytes, (uint16_t)index, flags, slots);
}

static __device__ __forceinline__ void write_add(theirs_qp *qp, uint64_t raddr, uint32_t rkey,
						 uint64_t value, uint64_t index)
{
	void *slots[2];

	find_slots(qp, index, slots);
	ibgda_write_atomic_wqe<false>(qp, nullptr, &value, nullptr, (uint64_t)qp->ibuf.buf,
				      qp->ibuf.lkey, raddr, rkey, 8, (uint16_t)index,
				      NVSHMEMI_AMO_SIGNAL_ADD, MLX5_WQE_CTRL_CQ_UPDATE, slots);
}

static __device__ __forceinline__ void post_data(theirs_qp *qp, const struct theirs_request *r)
{
	uint64_t index = ibgda_reserve_wqe_slots(qp, 1, true);

	write_data(qp, r, index, MLX5_WQE_CTRL_CQ_UPDATE);
	ibgda_submit_requests<true>(qp, index, 1);
}

static __device__ __forceinline__ void post_data_and_add(theirs_qp *qp,
							 const struct theirs_request *r,
							 uint64_t word, uint32_t word_key,
							 uint64_t value)
{
	uint64_t index = ibgda_reserve_wqe_slots(qp, 2, true);

	write_data(qp, r, index, 0);
	write_add(qp, word, word_key, value, index + 1);
	ibgda_submit_requests<true>(qp, index, 2);
}

static __device__ __forceinline__ void post_value(theirs_qp *qp, uint64_t raddr, uint32_t rkey,
						  uint64_t value)
{
	uint64_t index = ibgda_reserve_wqe_slots(qp, 1, true);
	void *slots[2];

	find_slots(qp, index, slots);
	ibgda_write_rdma_write_inl_wqe<false>(qp, nullptr, &value, raddr, rkey, 8, (uint16_t)index,
					      MLX5_WQE_CTRL_CQ_UPDATE, slots);
	ibgda_submit_requests<true>(qp, index, 1);
}
#endif

KERNEL via_parts_p(theirs_qp *qp, uint64_t raddr, uint32_t rkey, uint64_t value)
{
	DEVICE(post_value(qp, raddr, rkey, value);)
}

KERNEL via_parts_put(theirs_qp *qp, struct theirs_request r)
{
	DEVICE(post_data(qp, &r); ibgda_quiet(qp);)
}

KERNEL via_parts_put_nbi(theirs_qp *qp, struct theirs_request r)
{
	DEVICE(post_data(qp, &r);)
}

KERNEL via_parts_put_signal(theirs_qp *qp, struct theirs_request r, uint64_t word,
			    uint32_t word_key, uint64_t value)
{
	DEVICE(post_data_and_add(qp, &r, word, word_key, value); ibgda_quiet(qp);)
}

KERNEL via_parts_put_signal_nbi(theirs_qp *qp, struct theirs_request r, uint64_t word,
				uint32_t word_key, uint64_t value)
{
	DEVICE(post_data_and_add(qp, &r, word, word_key, value);)
}

KERNEL via_parts_quiet(theirs_qp *qp)
{
	DEVICE(ibgda_quiet(qp);)
}

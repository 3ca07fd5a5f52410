/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot peers of libshmemclient, a part of <shmemclient.h>, whose head holds for it too.
 *
 * In a table of peers, a bounded number of the busiest have an RC QP of their own. Memory grows with peers by
 * 16 bytes each. Device functions ask for the way to a peer (shmd_dev_way_to() in <shmd/dev/rma.h>) and post there.
 *
 * Both ends of a pair make a QP, and the caller carries addresses and agreements between them, as at its start:
 *
 *	1. each	shmd_hot_decide(): which peers it wants to offer a QP, which to retire
 *	2. each	shmd_hot_offer() for a pair that both want; its address goes to the other
 *	3. each	shmd_hot_accept() with the other's address; then it informs the other
 *	4. each	shmd_hot_switch() to RC after the other has accepted, at a moment when it has nothing under way
 *	5. each	if either wants it: shmd_hot_switch() to DC; after both did: shmd_hot_retire()
 *
 * Threads	one call at a time on one set; posting threads and kernels go on during each but switch, retire and close
 */
#ifndef SHMEMCLIENT_HOT_H
#define SHMEMCLIENT_HOT_H

#include <shmemclient.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shmd_hot;

#define SHMD_HOT_MAX_PEERS 64

struct shmd_hot_attr {
	unsigned int max_peers; /* with a QP of their own at once, 1..SHMD_HOT_MAX_PEERS; 0: 8 */
	uint32_t sq_wqebbs; /* of each such QP, as in shmd_queues_attr; 0: that of the DCIs */
	uint64_t min_posts; /* operations in an interval that make a peer hot; below half of it, it cools; 0: 1000 */
	uint32_t access; /* of peers through those QPs: SHMD_ACCESS_REMOTE_*; 0: all. Ask for no more than the DCT allows */
};

enum shmd_hot_state {
	SHMD_HOT_DC = 0, /* by the DCIs, without a QP of its own */
	SHMD_HOT_OFFERED = 1, /* has a QP that is not connected; by the DCIs */
	SHMD_HOT_CONNECTED = 2, /* has a QP; by the DCIs */
	SHMD_HOT_RC = 3, /* by its own QP */
};

enum shmd_hot_action {
	SHMD_HOT_OFFER = 1,
	SHMD_HOT_RETIRE = 2,
};
struct shmd_hot_change {
	uint32_t peer;
	enum shmd_hot_action action;
};

/*
 * shmd_hot_open - let peers of a batch of DCIs have QPs of their own
 *
 * All peers begin on DC. Fills routes_addr of the batch's dev-state. Makes no QP yet.
 *
 * dcis		with their table of peers (shmd_queues_set_peers), which stays until shmd_hot_close(). Several DCIs must have
 *		sharing GPU, since all that post to a peer share its QP; QPs have the sharing of the DCIs.
 *		All DCIs of the batch are driven through one view: one GPU's or the CPU's; other DCIs are another batch with
 *		a set of its own. shmd_gpu_dev_state() refuses a second GPU a view (-EBUSY)
 * attr		in; may be NULL: all defaults
 * Lifetime	until shmd_hot_close(), which comes before shmd_queues_destroy() of the DCIs
 * Blocks	no longer than another thread's request
 * Errors	-EBUSY a GPU has a view of these queues already, or they have a set; -EINVAL not DCIs, no table, sharing, access
 */
SHMD_EXPORT int shmd_hot_open(struct shmd_queues *dcis, const struct shmd_hot_attr *attr, struct shmd_hot **ret_hot);
/*
 * shmd_hot_close - every peer by the DCIs again, and their QPs destroyed
 *
 * Drops the requests under way on those QPs. No thread or kernel may use the batch's dev-state during the call. On failure the
 * handle stays, with the QPs that could not be destroyed, and the call may be repeated. The set also ends with the session.
 *
 * Errors	-EIO and other errors of CUDA, if the GPU's view cannot be written: nothing changes then. In a context that a kernel
 *		has broken it never can: call shmd_gpu_close() for that GPU, then this again
 */
SHMD_EXPORT int shmd_hot_close(struct shmd_hot *hot);
/*
 * shmd_hot_count - add operations to those that device functions counted (shmd_dev_way_count)
 *
 * For callers that know their posts without counting in kernels, and for the number that a peer reports of its posts to this
 * side: then both ends of a pair judge by the same number.
 *
 * Blocks	never
 */
SHMD_EXPORT int shmd_hot_count(struct shmd_hot *hot, uint32_t peer, uint64_t n_posts);
/*
 * shmd_hot_posts - operations since the last decision, including those in GPUs' views
 *
 * Operations that a kernel on a GPU counts during the call may be lost, for any peer.
 *
 * Blocks	as long as CUDA does to copy 16 bytes for each peer
 * Errors	-EIO and other errors of CUDA
 */
SHMD_EXPORT int shmd_hot_posts(struct shmd_hot *hot, uint32_t peer, uint64_t *ret_n_posts);
/*
 * shmd_hot_decide - end an interval: which peers should get a QP, which should give it back
 *
 * Changes nothing but the counts, which begin again at 0; operations that a kernel on a GPU counts during the call may be lost,
 * for any peer. Offers come first for the busiest. Proposes to retire a peer with less than half of min_posts, and always one with
 * none. If all places are taken, a peer with more than twice the operations of the least busy takes its place. The result is
 * advice: the other end may decide differently.
 *
 * ret_changes	out; room for 2 * max_peers; those to retire come first
 * ret_n	out
 * Blocks	as shmd_hot_posts()
 * Errors	-EIO and other errors of CUDA
 */
SHMD_EXPORT int shmd_hot_decide(struct shmd_hot *hot, struct shmd_hot_change *ret_changes, unsigned int *ret_n);
/*
 * shmd_hot_offer - make an RC QP for a peer
 *
 * A repeated call for the same peer returns the same address. The peer passes it to its shmd_hot_accept(), for this side's index
 * in its table.
 *
 * Errors	-ENOSPC max_peers have one already: retire one, or leave this peer on DC; those of shmd_queues_create()
 */
SHMD_EXPORT int shmd_hot_offer(struct shmd_hot *hot, uint32_t peer, struct shmd_addr *ret_addr);
/*
 * shmd_hot_accept - connect the peer's QP to the one it offered
 *
 * The peer's requests are served from then on; this side's still go by the DCIs.
 *
 * params	in; may be NULL: the daemon's settings (qp-timeout and the like)
 * Errors	-EINVAL nothing was offered, or it is connected; those of shmd_queues_connect()
 */
SHMD_EXPORT int shmd_hot_accept(struct shmd_hot *hot, uint32_t peer, const struct shmd_addr *addr,
				const struct shmd_qp_params *params);
/*
 * shmd_hot_switch - from now on requests to a peer go by its own QP, or by the DCIs again
 *
 * Order between the two ways exists only by completion: no thread may post by this batch's dev-state during the call, and requests
 * on the old way must have completed (shmd_dev_ways_quiet_as), on CPU and GPUs. The call checks that, and refuses otherwise.
 * A QP that failed counts as quiet. The call changes GPUs' views too, so no kernel that uses them may run.
 *
 * to_rc	true: only after the peer has accepted, too; requests before that would be lost and end in an error
 * Blocks	as long as CUDA does to write a few words
 * Errors	-EBUSY requests are under way; -EINVAL the QP is not connected; -EIO and other errors of CUDA: the way stays
 */
SHMD_EXPORT int shmd_hot_switch(struct shmd_hot *hot, uint32_t peer, bool to_rc);
/*
 * shmd_hot_retire - destroy the QP of a peer that goes by the DCIs
 *
 * Also takes back an offer. The other end's requests by the pair fail from then on, so it must have switched to DC.
 *
 * Blocks	as long as CUDA does to write a few words, and a request
 * Errors	-EBUSY requests still go by its QP; -EINVAL it has none; -EIO and other errors of CUDA: the QP stays, and
 *		shmd_hot_close() says how to go on
 */
SHMD_EXPORT int shmd_hot_retire(struct shmd_hot *hot, uint32_t peer);
/* enum shmd_hot_state of a peer; -EINVAL. Never blocks. */
SHMD_EXPORT int shmd_hot_state(const struct shmd_hot *hot, uint32_t peer);

#ifdef __cplusplus
}
#endif

#endif

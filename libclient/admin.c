/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's status and its lists, page by page, as shmemctl shows them.
 *
 * Callbacks run between requests, without the lock, so they may use the client.
 */
#include <errno.h>
#include <string.h>

#include "libclient/from-msg.h"
#include "libclient/request.h"

/* A page has 256 QPs: that is more than 64 NICs have. */
#define LIST_MAX_PAGES (1u << 17)

int shmd_client_counters(struct shmd_client *client, struct shmd_counters *ret_counters)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_COUNTERS_REQ, MSG_COUNTERS_REP);
	r = client_check_out(client, ret_counters, "ret_counters");
	if (!r)
		r = request_call(client, &call);
	if (r < 0)
		return r;
	counters_from_msg(&call.rep.counters_rep.counters, ret_counters);
	return 0;
}

int shmd_admin_status(struct shmd_client *client, struct shmd_daemon_status *ret_status)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_STATUS_REQ, MSG_STATUS_REP);
	r = client_check_out(client, ret_status, "ret_status");
	if (!r)
		r = request_call(client, &call);
	if (r < 0)
		return r;
	status_from_msg(&call.rep.status_rep, ret_status);
	return 0;
}

/* ---- lists */

typedef int page_fn(const struct msg_list_rep *page, void *fn_arg);

/* A daemon that repeats a page, or sends pages without end, must not hold the caller for ever. */
static int check_progress(uint64_t cursor, uint64_t next, unsigned int n_pages)
{
	if (next == 0 || (next > cursor && n_pages < LIST_MAX_PAGES))
		return 0;
	if (next <= cursor)
		return text_fail(-EPROTO, "shmemd's list does not go on: its next page begins where this one did, or before");
	return text_fail(-EPROTO, "shmemd's list does not end: it has more than %u pages", LIST_MAX_PAGES);
}

static int list_pages(struct shmd_client *client, enum msg_list_what what, page_fn *page, void *fn_arg)
{
	uint64_t cursor = 0;
	int r = client_check(client);

	for (unsigned int n = 1; !r; n++) {
		_cleanup_request_ struct request call;

		request_init(&call, MSG_LIST_REQ, MSG_LIST_REP);
		call.req.list_req.what = what;
		call.req.list_req.cursor = cursor;
		r = request_call(client, &call);
		if (r)
			break;
		r = check_progress(cursor, call.rep.list_rep.next_cursor, n);
		if (!r)
			r = page(&call.rep.list_rep, fn_arg);
		cursor = call.rep.list_rep.next_cursor;
		if (!cursor)
			break;
	}
	return r;
}

/*
 * For each kind of item: the caller's function, and the page function that converts items and calls it until it returns
 * non-zero.
 */
#define DEFINE_PAGE(items, item_type, item_from_msg) \
	struct items##_call { \
		int (*fn)(void *arg, const struct item_type *item); \
		void *arg; \
	}; \
	static int items##_page(const struct msg_list_rep *page, void *fn_arg) \
	{ \
		const struct items##_call *call = fn_arg; \
		struct item_type item; \
		int r = 0; \
 \
		for (unsigned int i = 0; i < page->n_##items && !r; i++) { \
			item_from_msg(&page->items[i], &item); \
			r = call->fn(call->arg, &item); \
		} \
		return r; \
	}

DEFINE_PAGE(sessions, shmd_session_item, session_item_from_msg)
DEFINE_PAGE(qps, shmd_qp_item, qp_item_from_msg)
DEFINE_PAGE(mrs, shmd_mr_item, mr_item_from_msg)
DEFINE_PAGE(nics, shmd_nic_item, nic_item_from_msg)
DEFINE_PAGE(pes, shmd_pe_item, pe_item_from_msg)
DEFINE_PAGE(paths, shmd_path_item, path_item_from_msg)
DEFINE_PAGE(undriven, shmd_undriven_nic, undriven_nic_from_msg)

int shmd_admin_sessions(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_session_item *item), void *arg)
{
	return list_pages(client, MSG_LIST_SESSIONS, sessions_page, &(struct sessions_call){fn, arg});
}

int shmd_admin_qps(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_qp_item *item), void *arg)
{
	return list_pages(client, MSG_LIST_QPS, qps_page, &(struct qps_call){fn, arg});
}

int shmd_admin_mrs(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_mr_item *item), void *arg)
{
	return list_pages(client, MSG_LIST_MRS, mrs_page, &(struct mrs_call){fn, arg});
}

int shmd_admin_nics(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_nic_item *item), void *arg)
{
	return list_pages(client, MSG_LIST_NICS, nics_page, &(struct nics_call){fn, arg});
}

int shmd_admin_undriven(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_undriven_nic *nic), void *arg)
{
	return list_pages(client, MSG_LIST_NICS, undriven_page, &(struct undriven_call){fn, arg});
}

int shmd_admin_pes(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_pe_item *item), void *arg)
{
	return list_pages(client, MSG_LIST_PES, pes_page, &(struct pes_call){fn, arg});
}

int shmd_admin_paths(struct shmd_client *client, int (*fn)(void *arg, const struct shmd_path_item *item), void *arg)
{
	return list_pages(client, MSG_LIST_PATHS, paths_page, &(struct paths_call){fn, arg});
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing between processes of one user: a descriptor and a few bytes under (world, PE, slot).
 *
 * The daemon answers a fetch at once. To wait for an entry, the library asks again, at
 * first quickly, then every two milliseconds, without holding the lock.
 */
#include <string.h>
#include <time.h>

#include "libclient/request.h"

#define FETCH_MIN_SLEEP_NSEC 50000u
#define FETCH_MAX_SLEEP_NSEC 2000000u

static void fill_key(struct msg_world_key *key, const struct shmd_world_key *world, uint32_t pe, uint32_t slot)
{
	memcpy(key->world, world->secret, sizeof(key->world));
	key->pe = pe;
	key->slot = slot;
}

int shmd_publish(struct shmd_client *client, const struct shmd_world_key *world, uint32_t pe, uint32_t slot,
		 const void *data, size_t bytes, int fd)
{
	_cleanup_request_ struct request call;
	struct msg_publish_req *req = &call.req.publish_req;
	int r;

	request_init(&call, MSG_PUBLISH_REQ, MSG_OK_REP);
	r = client_check(client);
	if (r < 0)
		return r;
	if (!world || (bytes && !data) || bytes > sizeof(req->data))
		return text_fail(-EINVAL, "world or data is NULL, or %zu bytes are more than %zu", bytes,
				 sizeof(req->data));
	fill_key(&req->key, world, pe, slot);
	req->has_fd = fd >= 0;
	req->data_bytes = (uint32_t)bytes;
	if (bytes)
		memcpy(req->data, data, bytes);
	call.fd = fd;
	return request_call(client, &call);
}

int shmd_unpublish(struct shmd_client *client, const struct shmd_world_key *world, uint32_t pe, uint32_t slot)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_UNPUBLISH_REQ, MSG_OK_REP);
	r = client_check(client);
	if (r < 0)
		return r;
	if (!world)
		return text_fail(-EINVAL, "world is NULL");
	fill_key(&call.req.unpublish_req, world, pe, slot);
	return request_call(client, &call);
}

static int take_fetched(struct request *call, void *data, size_t *bytes, int *ret_fd)
{
	const struct msg_fetch_rep *rep = &call->rep.fetch_rep;
	int fd = -1;

	if (rep->data_bytes > *bytes)
		return text_fail(-ENOBUFS, "%u bytes are published, there is room for %zu", rep->data_bytes,
				 *bytes);
	if (rep->has_fd && ret_fd) {
		fd = request_take_fd(call, 0);
		if (fd < 0)
			return fd;
	}
	if (rep->data_bytes)
		memcpy(data, rep->data, rep->data_bytes);
	*bytes = rep->data_bytes;
	if (ret_fd)
		*ret_fd = fd;
	return 0;
}

static int fetch_once(struct shmd_client *client, const struct msg_world_key *key, void *data, size_t *bytes,
		      int *ret_fd)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_FETCH_REQ, MSG_FETCH_REP);
	call.req.fetch_req = *key;
	r = request_call(client, &call);
	return r < 0 ? r : take_fetched(&call, data, bytes, ret_fd);
}

static void sleep_before(uint64_t deadline, uint64_t nsec)
{
	uint64_t now = nsec_now();
	struct timespec ts;

	if (now >= deadline)
		return;
	ts = nsec_to_timespec(nsec < deadline - now ? nsec : deadline - now);
	nanosleep(&ts, NULL);
}

int shmd_fetch(struct shmd_client *client, const struct shmd_world_key *world, uint32_t pe, uint32_t slot,
	       void *data, size_t *bytes, int *ret_fd, uint64_t timeout_nsec)
{
	uint64_t deadline, nap = FETCH_MIN_SLEEP_NSEC;
	struct msg_world_key key = {0};
	char before[CLIENT_TEXT_BYTES];
	size_t none = 0;
	int r = client_check(client);

	if (r < 0)
		return r;
	if (!world || (bytes && *bytes && !data))
		return text_fail(-EINVAL, "world or data is NULL");
	fill_key(&key, world, pe, slot);
	deadline = nsec_add(nsec_now(), timeout_nsec);
	text_copy(before, sizeof(before), shmd_error_text());
	for (;;) {
		r = fetch_once(client, &key, data, bytes ? bytes : &none, ret_fd);
		/* Success leaves the text alone, even after failed tries. */
		if (!r)
			return text_fail(0, "%s", before);
		if (r != -ENOENT || nsec_now() >= deadline)
			return r;
		sleep_before(deadline, nap);
		nap = nap * 2 < FETCH_MAX_SLEEP_NSEC ? nap * 2 : FETCH_MAX_SLEEP_NSEC;
	}
}

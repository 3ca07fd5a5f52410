/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publish, withdraw, fetch. The caller's uid is part of every key: a request for another user's entry gets the same answer
 * as one for an entry that does not exist. Only the session that published an entry may withdraw it. Control thread.
 */
#include "daemon/session/dispatch.h"

#include <errno.h>
#include <string.h>

_Static_assert(PUBLISH_WORLD_BYTES == MSG_WORLD_BYTES && PUBLISH_DATA_BYTES == MSG_DATA_BYTES,
	       "the wire and the table agree");

static struct publish_key key_of(const struct session *session, const struct msg_world_key *from)
{
	struct publish_key key = {
		.uid = session->identity.uid, .pe = from->pe, .slot = from->slot};

	memcpy(key.world, from->world, sizeof(key.world));
	return key;
}

static int not_published(struct request *req, const struct msg_world_key *key)
{
	return request_fail(req, SHMD_STATUS_NOT_PUBLISHED,
			    "nothing is published for PE %u, slot %u of this world", key->pe, key->slot);
}

static int add_entry(struct request *req, struct publish_entry *entry)
{
	const struct msg_publish_req *publish = &req->msg->publish_req;
	const struct quota_amount amount = {
		.n = {[QUOTA_PUBLISHED] = 1, [QUOTA_FDS] = publish->has_fd}};
	struct session *session = req->session;
	int r;

	if (publish->has_fd && req->fds->refused)
		return request_refused_fd(req, "published");
	r = request_charge(req, &amount, &entry->charge);
	if (r != 0)
		return r;
	if (publish->has_fd)
		entry->fd = fdlist_take(req->fds, 0);
	entry->owner = session;
	entry->data_bytes = publish->data_bytes;
	memcpy(entry->data, publish->data, publish->data_bytes);
	r = publish_add(&session->registry->published, entry);
#ifdef FUZZ_PLANT
	if (PLANTED("dispatch") && r == -EEXIST)
		entry->fd = -1;
#endif
	if (r == -EEXIST)
		return request_fail(req, SHMD_STATUS_EXISTS,
				    "PE %u, slot %u of this world is already published", publish->key.pe,
				    publish->key.slot);
	if (r < 0)
		return r;
	list_add_tail(&session->published, &entry->owner_link);
	session->n_published++;
	session_save(session, SAVE_ENTRY, entry, entry->fd);
	return 0;
}

int handle_publish(struct request *req)
{
	const struct publish_key key = key_of(req->session, &req->msg->publish_req.key);
	struct publish_entry *entry = publish_entry_new(&key);
	int r;

	if (!entry)
		return -ENOMEM;
	r = add_entry(req, entry);
	if (r != 0)
		publish_entry_free(entry);
	return r;
}

int handle_unpublish(struct request *req)
{
	const struct msg_world_key *wanted = &req->msg->unpublish_req;
	const struct publish_key key = key_of(req->session, wanted);
	struct publish_entry *entry = publish_find(&req->session->registry->published, &key);

	if (!entry)
		return not_published(req, wanted);
	if (entry->owner != req->session)
		return request_fail(req, SHMD_STATUS_PERMISSION,
				    "another session published PE %u, slot %u", wanted->pe, wanted->slot);
	session_unsave(req->session, SAVE_ENTRY, entry);
	publish_entry_free(entry);
	req->session->n_published--;
	return 0;
}

int handle_fetch(struct request *req)
{
	const struct msg_world_key *wanted = &req->msg->fetch_req;
	const struct publish_key key = key_of(req->session, wanted);
	struct publish_entry *entry = publish_find(&req->session->registry->published, &key);
	struct msg_fetch_rep *rep = &req->rep->fetch_rep;
	int r;

	if (!entry)
		return not_published(req, wanted);
	if (entry->fd >= 0) {
		r = request_add_held(req, entry->fd);
		if (r < 0)
			return r;
	}
	req->rep->kind = MSG_FETCH_REP;
	rep->has_fd = entry->fd >= 0;
	rep->data_bytes = entry->data_bytes;
	memcpy(rep->data, entry->data, entry->data_bytes);
	return 0;
}

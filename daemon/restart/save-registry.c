/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's own state: numbers of sessions, which are never used twice; totals; which NIC a GPU has; ports that an administrator
 * took down; counters of NICs. A drain ends with the daemon. NICs have names here, since another daemon may number them in another
 * order. Control thread.
 */
#include "daemon/restart/save.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/restart/save-kinds.h"
#include "daemon/restart/state.h"
#include "proto/base/cleanup.h"

static void put_gpus(struct save_writer *w, const struct registry *registry)
{
	save_put(w, TAG_N_GPUS, REGISTRY_MAX_GPUS);
	for (unsigned int i = 0; i < REGISTRY_MAX_GPUS; i++) {
		const struct registry_gpu *gpu = &registry->gpus[i];
		const char *nic = gpu->gpu[0] ? registry->nics[gpu->nic].info.name : "";

		save_put_bytes(w, TAG_GPU, gpu->gpu, strlen(gpu->gpu));
		save_put_bytes(w, TAG_GPU_NIC, nic, strlen(nic));
	}
}

static void put_ports(struct save_writer *w, const struct registry *registry)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < registry->n_nics; i++)
		n += registry->nics[i].is_taken_down;
	for (unsigned int i = 0; i < registry->n_absent; i++)
		n += registry->absent[i].is_taken_down;
	save_put(w, TAG_N_DOWN, n);
	for (unsigned int i = 0; i < registry->n_nics; i++) {
		const struct registry_nic *rnic = &registry->nics[i];

		if (rnic->is_taken_down)
			save_put_bytes(w, TAG_DOWN_NIC, rnic->info.name, strlen(rnic->info.name));
	}
	for (unsigned int i = 0; i < registry->n_absent; i++) {
		const struct registry_absent *absent = &registry->absent[i];

		if (absent->is_taken_down)
			save_put_bytes(w, TAG_DOWN_NIC, absent->name, strlen(absent->name));
	}
}

static void put_counters(struct save_writer *w, const struct registry *registry)
{
	save_put(w, TAG_N_COUNTED, registry->n_nics + registry->n_absent);
	for (unsigned int i = 0; i < registry->n_nics; i++) {
		const struct registry_nic *rnic = &registry->nics[i];

		save_put_bytes(w, TAG_COUNTED_NIC, rnic->info.name, strlen(rnic->info.name));
		save_put_fields(w, &counters_fields, &rnic->ended);
		save_put_fields(w, &counters_fields, &rnic->told);
	}
	for (unsigned int i = 0; i < registry->n_absent; i++) {
		const struct registry_absent *absent = &registry->absent[i];

		save_put_bytes(w, TAG_COUNTED_NIC, absent->name, strlen(absent->name));
		save_put_fields(w, &counters_fields, &absent->ended);
		save_put_fields(w, &counters_fields, &absent->told);
	}
}

static int make_state(struct registry *registry)
{
	const struct registry_attr *attr = &registry->attr;
	int r = state_new(&registry->state);

	if (r < 0)
		return r;
	attr->store->remove(attr->store_arg, SAVE_REGISTRY);
	r = attr->store->put(attr->store_arg, SAVE_REGISTRY, state_fd(registry->state));
	if (r < 0)
		registry->state = state_free(registry->state);
	return r;
}

static void tell_failure(struct registry *registry, int r)
{
	char text[128];

	snprintf(text, sizeof(text), "the daemon's own state cannot be saved for the next one: %s", strerror(-r));
	registry_note(registry, &(struct note){.level = LOG_WARNING, .topic = NOTE_SESSION, .provoked = true, .text = text});
}

void save_registry(struct registry *registry)
{
	_cleanup_(save_writer_deinit) struct save_writer w = {0};
	int r;

	if (!registry->attr.store)
		return;
	save_put_fields(&w, &registry_fields, registry);
	put_gpus(&w, registry);
	put_ports(&w, registry);
	put_counters(&w, registry);
	r = w.r;
	if (r == 0 && !registry->state)
		r = make_state(registry);
	if (r == 0) {
		state_put(registry->state, 0, w.buf, w.n);
		r = state_commit(registry->state);
	}
	if (r < 0)
		tell_failure(registry, r);
}

void save_registry_end(struct registry *registry)
{
	registry->state = state_free(registry->state);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static void get_text(struct save_reader *reader, uint16_t tag, char *buf, size_t size)
{
	const void *text;
	size_t n;

	text = save_get_bytes(reader, tag, &n);
	memset(buf, 0, size);
	if (n >= size)
		reader->r = -EBADMSG;
	else if (text)
		memcpy(buf, text, n);
}

/* A GPU whose NIC is gone has none, as if it had never asked. */
static void get_gpus(struct save_reader *reader, struct registry *registry, struct registry_gpu *gpus)
{
	uint64_t n = save_get(reader, TAG_N_GPUS, REGISTRY_MAX_GPUS);

	for (uint64_t i = 0; reader->r == 0 && i < n; i++) {
		const struct registry_nic *rnic;
		char name[NIC_NAME_BYTES];

		get_text(reader, TAG_GPU, gpus[i].gpu, sizeof(gpus[i].gpu));
		get_text(reader, TAG_GPU_NIC, name, sizeof(name));
		rnic = registry_find_nic(registry, name);
		if (rnic)
			gpus[i].nic = rnic->index;
		else
			gpus[i].gpu[0] = 0;
	}
}

/* Names of NICs whose port was taken down. */
struct down {
	unsigned int n;
	char names[2 * REGISTRY_MAX_NICS][NIC_NAME_BYTES];
};

static void get_ports(struct save_reader *reader, struct down *down)
{
	uint64_t n = save_get(reader, TAG_N_DOWN, 2ul * REGISTRY_MAX_NICS);

	for (down->n = 0; reader->r == 0 && down->n < n; down->n++)
		get_text(reader, TAG_DOWN_NIC, down->names[down->n], NIC_NAME_BYTES);
}

static bool is_in(const struct down *down, const char *name)
{
	for (unsigned int i = 0; i < down->n; i++)
		if (strcmp(down->names[i], name) == 0)
			return true;
	return false;
}

/* A NIC that is not there now may be again; of more than there is room for the first stay. */
static void note_absent(struct registry *read, const struct registry_absent *absent)
{
	if (read->n_absent < REGISTRY_MAX_NICS)
		read->absent[read->n_absent++] = *absent;
}

/* To the NICs of `read` that have the places of those here. All NICs that there were are among them. */
static void get_counters(struct save_reader *reader, struct registry *registry, const struct down *down, struct registry *read)
{
	uint64_t n = save_get(reader, TAG_N_COUNTED, 2ul * REGISTRY_MAX_NICS);

	for (uint64_t i = 0; reader->r == 0 && i < n; i++) {
		struct registry_absent one = {0};
		const struct registry_nic *rnic;

		get_text(reader, TAG_COUNTED_NIC, one.name, sizeof(one.name));
		save_get_fields(reader, &counters_fields, &one.ended);
		save_get_fields(reader, &counters_fields, &one.told);
		rnic = registry_find_nic(registry, one.name);
		one.is_taken_down = is_in(down, one.name);
		if (rnic) {
			read->nics[rnic->index].ended = one.ended;
			read->nics[rnic->index].told = one.told;
		} else {
			note_absent(read, &one);
		}
	}
}

static void count_on(struct registry *registry, const struct registry *read)
{
	registry->counted = read->counted;
	registry->n_absent = read->n_absent;
	memcpy(registry->absent, read->absent, sizeof(registry->absent));
	for (unsigned int i = 0; i < registry->n_nics; i++) {
		registry->nics[i].ended = read->nics[i].ended;
		registry->nics[i].told = read->nics[i].told;
	}
}

int registry_import(struct registry *registry, struct state *state, const void *bytes, size_t n)
{
	struct save_reader reader = {.at = bytes, .end = (const uint8_t *)bytes + n};
	struct registry_gpu gpus[REGISTRY_MAX_GPUS] = {0};
	_cleanup_free_ struct registry *read = calloc(1, sizeof(*read));
	struct down down = {0};
	int r;

	if (!read)
		return -ENOMEM;
	save_get_fields(&reader, &registry_fields, read);
	get_gpus(&reader, registry, gpus);
	get_ports(&reader, &down);
	get_counters(&reader, registry, &down, read);
	r = save_reader_end(&reader);
	if (r < 0)
		return r;
	registry->last_id = read->last_id;
	registry->sessions_total = read->sessions_total;
	registry->refused_total = read->refused_total;
	registry->next_gpu = read->next_gpu;
	memcpy(registry->gpus, gpus, sizeof(gpus));
	count_on(registry, read);
	for (unsigned int i = 0; i < registry->n_nics; i++)
		if (is_in(&down, registry->nics[i].info.name))
			registry_take_down(&registry->nics[i]);
	save_registry_end(registry);
	registry->state = state;
	return 0;
}

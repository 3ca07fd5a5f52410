/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/join.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/members.h"
#include "proto/base/cleanup.h"

struct guest {
	bool came;
	unsigned int place;
	uint8_t instance[WIRE_NONCE_BYTES];
	union address address;
	bool is_here; /* on rank 0's machine */
};

struct join {
	unsigned int size;
	unsigned int n; /* came, rank 0 among them */
	char version[WIRE_VERSION_BYTES];
	char note[WIRE_TEXT_BYTES];
	struct guest *guests;	/* by rank */
	unsigned int *by_place; /* ranks */
};

unsigned int join_first_child(unsigned int place)
{
	return place * JOIN_FANOUT + 1;
}

unsigned int join_children(unsigned int place, unsigned int size)
{
	unsigned int first = join_first_child(place), n = first < size ? size - first : 0;

	return n < JOIN_FANOUT ? n : JOIN_FANOUT;
}

int join_new(unsigned int size, const char *version, struct join **ret)
{
	struct join *join = calloc(1, sizeof(*join));

	if (!join)
		return -ENOMEM;
	join->guests = calloc(size, sizeof(*join->guests));
	join->by_place = calloc(size, sizeof(*join->by_place));
	if (!join->guests || !join->by_place) {
		join_free(join);
		return -ENOMEM;
	}
	join->size = size;
	join->n = 1;
	join->guests[0].came = true;
	snprintf(join->version, sizeof(join->version), "%s", version);
	*ret = join;
	return 0;
}

void join_free(struct join *join)
{
	if (!join)
		return;
	free(join->guests);
	free(join->by_place);
	free(join);
}

static bool refuse(struct wire_reply *reply, int error, const char *text)
{
	reply->error = error;
	snprintf(reply->text, sizeof(reply->text), "%s", text);
	return false;
}

static bool is_known(const struct guest *guest, const struct wire_hello *hello)
{
	return !memcmp(guest->instance, hello->instance, WIRE_NONCE_BYTES);
}

static union address address_for_others(const struct guest *guest)
{
	union address here = {.in = {.sin_family = AF_INET, .sin_port = htons(address_port(&guest->address))}};

	return guest->is_here ? here : guest->address;
}

static bool welcome(const struct join *join, const struct guest *guest, struct wire_reply *reply)
{
	unsigned int parent = join->by_place[(guest->place - 1) / JOIN_FANOUT];

	reply->place = guest->place;
	reply->parent = parent;
	if (parent)
		reply->address = address_for_others(&join->guests[parent]);
	return !parent;
}

static bool refuse_duplicate(struct join *join, const struct gate_visit *visit, struct wire_reply *reply)
{
	char first[ADDRESS_TEXT_BYTES], second[ADDRESS_TEXT_BYTES], at[ADDRESS_TEXT_BYTES + 8] = "";
	unsigned int rank = visit->hello.rank;

	if (rank)
		snprintf(at, sizeof(at), " from %s", address_text(&join->guests[rank].address, first));
	snprintf(join->note, sizeof(join->note), "a second process, from %s, came as rank %u, and was refused",
		 address_text(&visit->from, second), rank);
	snprintf(reply->text, sizeof(reply->text), "another process of this job came%s as rank %u before this one", at, rank);
	reply->error = -EEXIST;
	return false;
}

static bool check_kin(const struct join *join, const struct wire_hello *hello, int *ret_error, char *text)
{
	*ret_error = 0;
	if (strcmp(hello->version, join->version)) {
		*ret_error = -EPROTO;
		snprintf(text, WIRE_TEXT_BYTES, "rank %u runs version %s of the library, rank 0 version %s", hello->rank,
			 hello->version, join->version);
	} else if (hello->size != join->size) {
		*ret_error = -EINVAL;
		snprintf(text, WIRE_TEXT_BYTES, "rank %u was started for a job of %u ranks, rank 0 for one of %u", hello->rank,
			 hello->size, join->size);
	}
	return !*ret_error;
}

bool join_answer(struct join *join, const struct gate_visit *visit, struct wire_reply *reply, int *ret_error, char *job_text)
{
	const struct wire_hello *hello = &visit->hello;
	struct guest *guest;

	if (!check_kin(join, hello, ret_error, job_text))
		return refuse(reply, *ret_error, job_text);
	guest = &join->guests[hello->rank];
	/* Rank 0 is here, and has no instance to be known by. */
	if (guest->came && (!hello->rank || !is_known(guest, hello)))
		return refuse_duplicate(join, visit, reply);
	if (!guest->came) {
		*guest = (struct guest){.came = true, .place = join->n};
		memcpy(guest->instance, hello->instance, WIRE_NONCE_BYTES);
		join->by_place[join->n++] = hello->rank;
	}
	/* A later try may come from another address, and with another port for the children. */
	guest->address = visit->from;
	guest->is_here = visit->is_here;
	return welcome(join, guest, reply);
}

bool join_is_complete(const struct join *join)
{
	return join->n == join->size;
}

bool join_came(const struct join *join, unsigned int rank)
{
	return join->guests[rank].came;
}

unsigned int join_rank_at(const struct join *join, unsigned int place)
{
	return join->by_place[place];
}

void join_write_book(const struct join *join, uint16_t port, uint8_t *book)
{
	union address here = {.in = {.sin_family = AF_INET, .sin_port = htons(port)}};

	members_write_entry(book, 0, &here);
	for (unsigned int rank = 1; rank < join->size; rank++) {
		const struct guest *guest = &join->guests[rank];
		union address at = address_for_others(guest);

		members_write_entry(book + (size_t)rank * MEMBERS_ENTRY_BYTES, guest->place, &at);
	}
}

const char *join_note(const struct join *join)
{
	return join->note;
}

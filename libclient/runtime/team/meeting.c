/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "libclient/runtime/team/meeting.h"

/* Words that differ in one bit give sums that differ in many. */
static uint64_t add(uint64_t sum, uint64_t x)
{
	sum = (sum ^ x) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
	return sum ^ (sum >> 29);
}

static uint64_t check_of(const struct meeting_entry *entry)
{
	uint64_t words[offsetof(struct meeting_entry, check) / 8], sum = 1;

	_Static_assert(offsetof(struct meeting_entry, check) % 8 == 0, "words");
	memcpy(words, entry, sizeof(words));
	for (unsigned int i = 0; i < sizeof(words) / 8; i++)
		sum = add(sum, words[i]);
	return sum;
}

void meeting_entry_seal(struct meeting_entry *entry)
{
	entry->check = check_of(entry);
}

bool meeting_entry_is_whole(const struct meeting_entry *entry)
{
	return entry->nonce && entry->check == check_of(entry);
}

uint64_t meeting_list(const int *pes, int n)
{
	uint64_t list = add(pes ? 1 : 2, (uint64_t)n);

	for (int i = 0; pes && i < n; i++)
		list = add(list, (uint64_t)pes[i]);
	return list;
}

uint64_t meeting_view(uint64_t view, int pe, uint64_t nonce)
{
	return add(add(view, (uint64_t)pe), nonce);
}

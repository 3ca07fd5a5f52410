/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing, copying and comparing records; heap-agree.h has the contract.
 *
 * Every PE compares with PE 0 and names the first one that differs, in a fixed order of fields, so all print the same. First
 * come the fields that say where a PE is in its program: if these differ, the others have no meaning.
 */
#include "libclient/runtime/heap/heap-agree.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <shmemclient.h>

#define LIBRARY ((uint32_t)SHMD_VERSION_MAJOR << 16 | SHMD_VERSION_MINOR << 8 | SHMD_VERSION_PATCH)
#define MAX_ERRNO 4095

_Static_assert(sizeof(struct heap_record) == 2240, "whole cache lines, without padding of the compiler's");
_Static_assert(offsetof(struct heap_record, number) == 16 && offsetof(struct heap_record, why) == 72 &&
	       offsetof(struct heap_record, freed) == 192, "as all PEs have it");

const char *heap_operation_name(uint32_t operation)
{
	static const char *const names[] = {
		[HEAP_OP_MALLOC] = "shmd_malloc",	  [HEAP_OP_CALLOC] = "shmd_calloc",
		[HEAP_OP_ALIGN] = "shmd_align",		  [HEAP_OP_REALLOC] = "shmd_realloc",
	};
	const char *name = operation < sizeof(names) / sizeof(names[0]) ? names[operation] : NULL;

	return name ? name : "an unknown call";
}

void heap_record_write(struct heap_record *record, const struct heap_call *call, struct heap *heap)
{
	struct heap_stats stats = {0};
	uint32_t n_freed = 0;

	if (heap && call->step == HEAP_STEP_ENTER) {
		n_freed = heap_take_freed(heap, record->freed, HEAP_RECORD_FREED);
		heap_stats(heap, &stats);
	}
	record->version = HEAP_RECORD_VERSION;
	record->library = LIBRARY;
	record->operation = call->operation;
	record->step = call->step;
	record->number = call->number;
	record->size = call->size;
	record->align = call->align;
	record->hints = call->hints;
	record->offset = call->offset;
	record->heap = call->heap;
	record->status = call->status;
	record->n_freed = n_freed;
	record->n_left = stats.n_pending > UINT32_MAX ? UINT32_MAX : (uint32_t)stats.n_pending;
	snprintf(record->why, sizeof(record->why), "%s", call->status < 0 && call->why ? call->why : "");
	memset(record->reserved, 0, sizeof(record->reserved));
}

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

static int check_version(const struct heap_record *record, uint32_t pe)
{
	if (record->version == HEAP_RECORD_VERSION && record->library == LIBRARY)
		return 0;
	return shmd_error_set(-EINVAL,
			      "PE %u has libshmemclient %u.%u.%u (records of version %u), this PE %u.%u.%u (version %u)", pe,
			      record->library >> 16, record->library >> 8 & 0xff, record->library & 0xff, record->version,
			      LIBRARY >> 16, LIBRARY >> 8 & 0xff, LIBRARY & 0xff, HEAP_RECORD_VERSION);
}

/* It goes to terminals and logs. */
static void make_printable(char *text, size_t bytes)
{
	text[bytes - 1] = 0;
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

int heap_record_read(const struct heap_record *shared, uint32_t pe, struct heap_record *ret_record)
{
	int r;

	memcpy(ret_record, shared, offsetof(struct heap_record, freed));
	r = check_version(ret_record, pe);
	if (r < 0)
		return r;
	if (ret_record->n_freed > HEAP_RECORD_FREED)
		return shmd_error_set(-EINVAL,
				      "the record of PE %u has a list of %u freed slots, and room for %u: its memory was overwritten",
				      pe, ret_record->n_freed, HEAP_RECORD_FREED);
	if (ret_record->status > 0 || ret_record->status < -MAX_ERRNO)
		return shmd_error_set(-EINVAL, "the record of PE %u has the status %d: its memory was overwritten", pe,
				      ret_record->status);
	make_printable(ret_record->why, sizeof(ret_record->why));
	memcpy(ret_record->freed, shared->freed, ret_record->n_freed * sizeof(ret_record->freed[0]));
	return 0;
}

/* ---- comparing ----------------------------------------------------------------------------------------------------------- */

/* Where the PEs are in their programs. */
static int check_place(const struct heap_record *one, uint32_t pe, const struct heap_record *first)
{
	if (one->number != first->number)
		return shmd_error_set(-EINVAL,
				      "PE %u is in its collective call %" PRIu64 " (%s), PE 0 in call %" PRIu64 " (%s)", pe,
				      one->number, heap_operation_name(one->operation), first->number, heap_operation_name(first->operation));
	if (one->operation != first->operation)
		return shmd_error_set(-EINVAL, "PE %u calls %s, PE 0 %s (call %" PRIu64 ")", pe, heap_operation_name(one->operation),
				      heap_operation_name(first->operation), first->number);
	if (one->step != first->step)
		return shmd_error_set(-EINVAL, "%s: PE %u is in step %u, PE 0 in step %u (call %" PRIu64 ")",
				      heap_operation_name(first->operation),
				      pe, one->step, first->step, first->number);
	return 0;
}

/* "0x1000", or "NULL". Returns text. */
static const char *offset_text(uint64_t offset, char text[24])
{
	if (offset == HEAP_NONE)
		return "NULL";
	snprintf(text, 24, "0x%" PRIx64, offset);
	return text;
}

static int check_arguments(const struct heap_record *one, uint32_t pe, const struct heap_record *first)
{
	const char *name = heap_operation_name(first->operation);
	char text[2][24];

	if (one->heap != first->heap)
		return shmd_error_set(-EINVAL, "%s: PE %u asks for memory of heap %u, PE 0 of heap %u (call %" PRIu64 ")",
				      name, pe,
				      one->heap, first->heap, first->number);
	if (one->size != first->size)
		return shmd_error_set(-EINVAL,
				      "%s: PE %u asks for %" PRIu64 " bytes, PE 0 for %" PRIu64 " (call %" PRIu64 ")", name, pe,
				      one->size, first->size, first->number);
	if (one->align != first->align)
		return shmd_error_set(-EINVAL,
				      "%s: PE %u asks for an alignment of %" PRIu64 ", PE 0 of %" PRIu64 " (call %" PRIu64 ")",
				      name, pe, one->align, first->align, first->number);
	if (one->hints != first->hints)
		return shmd_error_set(-EINVAL,
				      "%s: PE %u passes the hints 0x%" PRIx64 ", PE 0 0x%" PRIx64 " (call %" PRIu64 ")", name, pe,
				      one->hints, first->hints, first->number);
	if (one->offset != first->offset)
		return shmd_error_set(-EINVAL, "%s: PE %u passes the memory at offset %s, PE 0 at %s (call %" PRIu64 ")",
				      name, pe,
				      offset_text(one->offset, text[0]), offset_text(first->offset, text[1]), first->number);
	return 0;
}

static int check_status(const struct heap_record *one, uint32_t pe)
{
	if (!one->status)
		return 0;
	return shmd_error_set(one->status, "%s: PE %u cannot: %s (call %" PRIu64 ")", heap_operation_name(one->operation), pe,
			      one->why[0] ? one->why : strerror(-one->status), one->number);
}

int heap_records_check(const struct heap_record *records, uint32_t n_pes)
{
	int r = 0;

	for (uint32_t pe = 1; r >= 0 && pe < n_pes; pe++)
		r = check_place(&records[pe], pe, &records[0]);
	for (uint32_t pe = 0; r >= 0 && pe < n_pes; pe++)
		r = check_status(&records[pe], pe);
	for (uint32_t pe = 1; r >= 0 && pe < n_pes; pe++)
		r = check_arguments(&records[pe], pe, &records[0]);
	return r;
}

/* ---- freed slots --------------------------------------------------------------------------------------------------------- */

/* A PE that asks for memory of another heap has freed memory of that one. */
static int apply_one(const struct heap_record *record, uint32_t pe, struct heap *const *heaps, uint32_t n_heaps)
{
	if (!record->n_freed)
		return 0;
	if (record->heap >= n_heaps || !heaps[record->heap])
		return shmd_error_set(-EINVAL, "the record of PE %u names heap %u, which is not there", pe, record->heap);
	return heap_apply_freed(heaps[record->heap], pe, record->freed, record->n_freed);
}

int heap_records_apply(const struct heap_record *records, uint32_t n_pes, struct heap *const *heaps, uint32_t n_heaps)
{
	int r = 0;

	for (uint32_t pe = 0; r >= 0 && pe < n_pes; pe++)
		r = apply_one(&records[pe], pe, heaps, n_heaps);
	return r;
}

bool heap_records_left(const struct heap_record *records, uint32_t n_pes)
{
	for (uint32_t pe = 0; pe < n_pes; pe++)
		if (records[pe].n_left)
			return true;
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fault points: "NAME:N" to what to break, or where to end. Pure. README.md lists them. */
#include "daemon/nic/soft/soft.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	enum soft_fault_kind kind;
	uint64_t least;
} fault_names[] = {
	{"soft.nic-thread-stop", SOFT_FAULT_THREAD_STOP, 0},
	{"soft.flip-payload-byte", SOFT_FAULT_FLIP_PAYLOAD_BYTE, 1},
	{"soft.drop-cqe", SOFT_FAULT_DROP_CQE, 1},
	{"soft.delay-memory", SOFT_FAULT_DELAY_MEMORY, 0},
	{"soft.sit-still", SOFT_FAULT_SIT_STILL, 1},
};

/* Is this text, as far as its colon, the name? */
static bool is_named(const char *text, const char *colon, const char *name)
{
	size_t n = (size_t)(colon - text);

	return strncmp(name, text, n) == 0 && name[n] == '\0';
}

static int parse_step(const char *text, const char *colon, uint64_t nth, struct soft_fault *ret_fault)
{
	for (unsigned int i = 0; i < ENGINE_N_STEPS && nth >= 1; i++) {
		enum engine_step step = (enum engine_step)i;

		if (!is_named(text, colon, engine_step_name(step)))
			continue;
		*ret_fault = (struct soft_fault){.kind = SOFT_FAULT_ENGINE_STEP, .step = step, .nth = nth};
		return 0;
	}
	return -EINVAL;
}

int soft_fault_parse(const char *text, struct soft_fault *ret_fault)
{
	const char *colon = text ? strchr(text, ':') : NULL;
	unsigned long long nth;
	char *end;

	if (!text) {
		*ret_fault = (struct soft_fault){.kind = SOFT_FAULT_NONE};
		return 0;
	}
	if (!colon || !isdigit((unsigned char)colon[1]))
		return -EINVAL;
	errno = 0;
	nth = strtoull(colon + 1, &end, 10);
	if (errno || *end)
		return -EINVAL;
	for (size_t i = 0; i < sizeof(fault_names) / sizeof(fault_names[0]); i++) {
		if (!is_named(text, colon, fault_names[i].name) || nth < fault_names[i].least)
			continue;
		*ret_fault = (struct soft_fault){.kind = fault_names[i].kind, .nth = nth};
		return 0;
	}
	return parse_step(text, colon, nth, ret_fault);
}

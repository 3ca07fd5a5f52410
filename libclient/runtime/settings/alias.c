/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of the variables of other libraries, in our words.
 *
 * NVSHMEM's values are those of its documentation; a bool of it is on unless it begins like "no" or 0, and we read SHMEM_* bools the
 * same way. A value without a counterpart here is refused or, where it only names a way that shmemd does not have, says nothing.
 */
#include "libclient/runtime/settings/alias.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/base/parse.h"

#define DIGITS "0123456789"
#define MAX_REST 16 /* letters that are no unit, which are refused later */

struct pair {
	const char *theirs, *ours;
};

static int put(const char *ours, char *text, size_t size)
{
	snprintf(text, size, "%s", ours);
	return 0;
}

/* The list ends with a NULL; ours NULL: says nothing. */
static int pick(const struct pair *pairs, const char *value, char *text, size_t size)
{
	for (; pairs->theirs; pairs++)
		if (!strcasecmp(pairs->theirs, value))
			return pairs->ours ? put(pairs->ours, text, size) : 1;
	return -EINVAL;
}

static bool is_on(const char *value)
{
	return !*value || !strchr("0nNfF", *value);
}

int alias_bool(const char *value, char *text, size_t size)
{
	return put(is_on(value) ? "on" : "off", text, size);
}

int alias_bootstrap(const char *value, char *text, size_t size)
{
	/* PMI: NVSHMEM_BOOTSTRAP_PMI says which one. A plug-in of NVSHMEM has another interface. */
	static const struct pair pairs[] = {
		{"UID", "uid"}, {"MPI", "mpi"}, {"SHMEM", "openshmem"}, {"PMI", NULL}, {NULL, NULL},
	};

	return pick(pairs, value, text, size);
}

int alias_bootstrap_pmi(const char *value, char *text, size_t size)
{
	static const struct pair pairs[] = {
		{"PMI", "pmi1"}, {"PMI-1", "pmi1"}, {"PMI-2", "pmi2"}, {"PMI2", "pmi2"}, {"PMIX", "pmix"}, {NULL, NULL},
	};

	return pick(pairs, value, text, size);
}

int alias_family(const char *value, char *text, size_t size)
{
	static const struct pair pairs[] = {{"AF_INET", "ipv4"}, {"AF_INET6", "ipv6"}, {NULL, NULL}};

	return pick(pairs, value, text, size);
}

int alias_error_checks(const char *value, char *text, size_t size)
{
	return is_on(value) ? put("sizes", text, size) : 1;
}

int alias_disable_p2p(const char *value, char *text, size_t size)
{
	return is_on(value) ? put("self,queue", text, size) : 1;
}

int alias_remote_transport(const char *value, char *text, size_t size)
{
	return strcasecmp(value, "none") ? 1 : put("self,mapped", text, size);
}

int alias_nvshmem_debug(const char *value, char *text, size_t size)
{
	static const struct pair pairs[] = {
		{"NONE", "none"}, {"VERSION", "error"}, {"WARN", "warn"}, {"INFO", "info"}, {"ABORT", "info"}, {"TRACE", "trace"},
		{NULL, NULL},
	};

	return pick(pairs, value, text, size);
}

int alias_shmem_debug(const char *value, char *text, size_t size)
{
	return is_on(value) ? put("debug", text, size) : 1;
}

/*
 * A number as strtod() reads it without an exponent, and one letter, behind which all is left out ("20kk" is "20k"). Our fractions have at
 * most 6 digits and stand behind a digit; further ones are less than the bytes of a page.
 */
int alias_symmetric_size(const char *value, char *text, size_t size)
{
	size_t n_whole = strspn(value, DIGITS), n_point = value[n_whole] == '.', n_fraction;
	const char *fraction = value + n_whole + n_point, *unit;
	int n;

	n_fraction = n_point ? strspn(fraction, DIGITS) : 0;
	unit = fraction + n_fraction;
	if (!n_whole && !n_fraction)
		return -EINVAL;
	n = snprintf(text, size, "%.*s%s%.*s%.*s", n_whole ? (int)n_whole : 1, n_whole ? value : "0", n_fraction ? "." : "",
		     (int)(n_fraction < 6 ? n_fraction : 6), fraction, *unit && strchr("kKmMgGtT", *unit) ? 1 : MAX_REST, unit);
	return n < 0 || (size_t)n >= size ? -EINVAL : 0;
}

/* A queue of NVSHMEM has the next power of two, too. */
int alias_depth(const char *value, char *text, size_t size)
{
	uint64_t depth, power = 16;

	if (parse_u64(value, 10, &depth) < 0 || depth > UINT32_MAX)
		return -EINVAL;
	while (power < depth)
		power *= 2;
	snprintf(text, size, "%" PRIu64, power);
	return 0;
}

/* NVSHMEM has groups of ranges, such as "full"; ours are all on or all off. */
int alias_nvtx(const char *value, char *text, size_t size)
{
	return put(strcasecmp(value, "off") ? "on" : "off", text, size);
}

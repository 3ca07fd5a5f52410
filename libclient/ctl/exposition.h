/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics in the text format of Prometheus, or as JSON.
 *
 * A family is one metric with its samples, and is begun once; a family without samples prints nothing. Labels may hold any
 * bytes: forbidden characters are escaped, and bytes that are not UTF-8 become U+FFFD.
 */
#ifndef SHMEMD_CTL_EXPOSITION_H
#define SHMEMD_CTL_EXPOSITION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "libclient/ctl/json.h"

enum metric_type { METRIC_GAUGE, METRIC_COUNTER };

struct metric {
	const char *name; /* with its unit; a counter's ends in _total */
	enum metric_type type;
	const char *help; /* a line without a backslash */
};

struct exposition {
	FILE *out;
	struct json *json; /* NULL: text */
	const struct metric *metric;
	bool has_head; /* the metric's */
	unsigned int n_labels; /* of the sample */
};

void exposition_begin(struct exposition *to, FILE *out, struct json *json);
void exposition_end(struct exposition *to);

void exposition_family(struct exposition *to, const struct metric *metric);
/* A sample: this, its labels, its value. */
void exposition_sample(struct exposition *to);
void exposition_label(struct exposition *to, const char *key, const char *value);
void exposition_uint(struct exposition *to, uint64_t value);
void exposition_seconds(struct exposition *to, uint64_t nsec);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of metrics; see exposition.h. Has the formats, and no metric. */
#include "libclient/ctl/exposition.h"

#include <inttypes.h>

static const char *const type_words[] = {[METRIC_GAUGE] = "gauge", [METRIC_COUNTER] = "counter"};

void exposition_begin(struct exposition *to, FILE *out, struct json *json)
{
	*to = (struct exposition){.out = out, .json = json};
	if (json)
		json_begin_array(json, "metrics");
}

static void end_family(struct exposition *to)
{
	if (!to->has_head || !to->json)
		return;
	json_end_array(to->json);
	json_end_object(to->json);
}

void exposition_end(struct exposition *to)
{
	end_family(to);
	if (to->json)
		json_end_array(to->json);
}

void exposition_family(struct exposition *to, const struct metric *metric)
{
	end_family(to);
	to->metric = metric;
	to->has_head = false;
}

static void put_head(struct exposition *to)
{
	const struct metric *metric = to->metric;

	to->has_head = true;
	if (!to->json) {
		fprintf(to->out, "# HELP %s %s\n", metric->name, metric->help);
		fprintf(to->out, "# TYPE %s %s\n", metric->name, type_words[metric->type]);
		return;
	}
	json_begin_object(to->json, NULL);
	json_string(to->json, "name", metric->name);
	json_string(to->json, "type", type_words[metric->type]);
	json_string(to->json, "help", metric->help);
	json_begin_array(to->json, "samples");
}

void exposition_sample(struct exposition *to)
{
	if (!to->has_head)
		put_head(to);
	to->n_labels = 0;
	if (to->json) {
		json_begin_object(to->json, NULL);
		json_begin_array(to->json, "labels");
	} else {
		fputs(to->metric->name, to->out);
	}
}

/* The format has three escapes; every other character stands for itself. */
static void put_value(FILE *out, const char *value)
{
	while (*value) {
		unsigned int n = json_utf8_bytes(value);

		if (*value == '"' || *value == '\\')
			fprintf(out, "\\%c", *value);
		else if (*value == '\n')
			fputs("\\n", out);
		else if (n == 1 || (n && !json_is_hidden(value)))
			fwrite(value, 1, n, out);
		else
			fputs("\xef\xbf\xbd", out);
		value += n ? n : 1;
	}
}

void exposition_label(struct exposition *to, const char *key, const char *value)
{
	if (to->json) {
		json_begin_object(to->json, NULL);
		json_string(to->json, "name", key);
		json_string(to->json, "value", value);
		json_end_object(to->json);
	} else {
		fprintf(to->out, "%c%s=\"", to->n_labels ? ',' : '{', key);
		put_value(to->out, value);
		fputc('"', to->out);
	}
	to->n_labels++;
}

/* The text between labels and value. */
static void end_labels(struct exposition *to)
{
	if (to->json)
		json_end_array(to->json);
	else
		fputs(to->n_labels ? "} " : " ", to->out);
}

void exposition_uint(struct exposition *to, uint64_t value)
{
	end_labels(to);
	if (to->json) {
		json_uint(to->json, "value", value);
		json_end_object(to->json);
	} else {
		fprintf(to->out, "%" PRIu64 "\n", value);
	}
}

void exposition_seconds(struct exposition *to, uint64_t nsec)
{
	end_labels(to);
	if (to->json) {
		json_seconds(to->json, "value", nsec);
		json_end_object(to->json);
	} else {
		fprintf(to->out, "%" PRIu64 ".%09" PRIu64 "\n", nsec / 1000000000, nsec % 1000000000);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/check-nics.h"

#include <string.h>

struct printer {
	FILE *to;
	bool as_json;
	unsigned int n, n_failed;
};

static const char *const words[] = {
	[NIC_NEED_OK] = "ok", [NIC_NEED_WARN] = "warn", [NIC_NEED_FAIL] = "fail", [NIC_NEED_UNKNOWN] = "unknown"};

void check_nics_put_text(const struct nic_need *need, FILE *to)
{
	fprintf(to, "%-12s %-8s %-19s %s\n", need->nic[0] ? need->nic : "host", words[need->state], need->name, need->reason);
	if (need->fix[0])
		fprintf(to, "%-12s %-8s %-19s to do: %s\n", "", "", "", need->fix);
}

static void put_member(const char *before, const char *key, const char *text, FILE *to)
{
	fprintf(to, "%s\"%s\":\"", before, key);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(to, "\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			fprintf(to, "\\u%04x", (unsigned char)*text);
		else
			fputc(*text, to);
	}
	fputc('"', to);
}

void check_nics_put_json(const struct nic_need *need, FILE *to)
{
	put_member("{", "nic", need->nic, to);
	put_member(",", "need", need->name, to);
	put_member(",", "state", words[need->state], to);
	put_member(",", "reason", need->reason, to);
	put_member(",", "fix", need->fix, to);
	fputc('}', to);
}

static void print(void *arg, const struct nic_need *need)
{
	struct printer *printer = arg;

	printer->n_failed += need->state == NIC_NEED_FAIL;
	if (printer->as_json) {
		fputs(printer->n++ ? ",\n" : "\n", printer->to);
		check_nics_put_json(need, printer->to);
	} else {
		check_nics_put_text(need, printer->to);
	}
}

bool check_nics(bool as_json, FILE *to)
{
	struct printer printer = {.to = to, .as_json = as_json};

	if (as_json)
		fputs("{\"schema_version\":1,\"needs\":[", to);
	for (const struct nic_backend *const *backend = nic_backends; *backend; backend++)
		if ((*backend)->check)
			(*backend)->check(print, &printer);
	if (as_json)
		fprintf(to, "\n],\"usable\":%s}\n", printer.n_failed ? "false" : "true");
	return printer.n_failed == 0;
}

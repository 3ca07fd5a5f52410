/* SPDX-License-Identifier: Apache-2.0 */
/* One line of the simple wire protocol of PMI-1: "cmd=put kvsname=a key=b value=c d". Pure. */
#ifndef SHMD_RUN_PMI_LINE_H
#define SHMD_RUN_PMI_LINE_H

#include <stdbool.h>
#include <stddef.h>

#define PMI_LINE_FIELDS 8u

struct pmi_line {
	bool is_multi; /* "mcmd=": more lines follow, up to "endcmd" */
	const char *command;
	unsigned int n_fields;
	struct {
		const char *name;
		const char *value;
	} fields[PMI_LINE_FIELDS];
};

/*
 * Splits `text`, n bytes without the newline, in place; text[n] must be 0. The fields point into it. "value=" takes the rest of
 * the line. -EBADMSG: a control character, a word without "=", a name or command that is empty, or too many fields.
 */
int pmi_line_parse(char *text, size_t n, struct pmi_line *ret_line);
/* NULL: there is none. */
const char *pmi_line_get(const struct pmi_line *line, const char *name);

#endif

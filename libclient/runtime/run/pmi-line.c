/* SPDX-License-Identifier: Apache-2.0 */
/* See pmi-line.h. */
#include "libclient/runtime/run/pmi-line.h"

#include <errno.h>
#include <string.h>

static bool is_plain(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return true;
}

/* Cuts "name=value" off *at. A value ends at a blank, that of "value" at the end of the line. */
static int cut_word(char **at, const char **ret_name, const char **ret_value)
{
	char *name = *at, *equals = name + strcspn(name, "= "), *end;

	if (*equals != '=' || equals == name)
		return -EBADMSG;
	*equals = 0;
	end = equals + 1;
	if (strcmp(name, "value"))
		end += strcspn(end, " ");
	else
		end += strlen(end);
	*at = end;
	while (**at == ' ')
		*(*at)++ = 0;
	*ret_name = name;
	*ret_value = equals + 1;
	return 0;
}

int pmi_line_parse(char *text, size_t n, struct pmi_line *ret_line)
{
	struct pmi_line line = {0};
	const char *name;

	if (!is_plain(text, n) || cut_word(&text, &name, &line.command) < 0 || !*line.command)
		return -EBADMSG;
	line.is_multi = !strcmp(name, "mcmd");
	if (!line.is_multi && strcmp(name, "cmd"))
		return -EBADMSG;
	for (; *text; line.n_fields++) {
		unsigned int most = PMI_LINE_FIELDS;

#ifdef FUZZ_PLANT
		most += PLANTED("pmi");
#endif
		if (line.n_fields == most)
			return -EBADMSG;
		if (cut_word(&text, &line.fields[line.n_fields].name, &line.fields[line.n_fields].value) < 0)
			return -EBADMSG;
	}
	*ret_line = line;
	return 0;
}

const char *pmi_line_get(const struct pmi_line *line, const char *name)
{
	for (unsigned int i = 0; i < line->n_fields; i++)
		if (!strcmp(line->fields[i].name, name))
			return line->fields[i].value;
	return NULL;
}

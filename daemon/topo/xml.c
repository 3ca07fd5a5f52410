/* SPDX-License-Identifier: Apache-2.0 */
/* One pass, forward only; names and values are ended with a zero where their delimiter stood. Keeps nothing. Any thread. */
#include "daemon/topo/xml.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

void xml_init(struct xml *xml, char *text, size_t n_bytes)
{
	*xml = (struct xml){.at = text, .end = text + n_bytes, .line = 1};
	*xml->end = 0;
}

static void count_lines(struct xml *xml, const char *from, const char *to)
{
	for (; from < to; from++)
		xml->line += *from == '\n';
}

static void move_to(struct xml *xml, char *at)
{
	count_lines(xml, xml->at, at);
	xml->at = at;
}

static void skip_blanks(struct xml *xml)
{
	char *at = xml->at;

	while (at < xml->end && isspace((unsigned char)*at))
		at++;
	move_to(xml, at);
}

/* Behind the next `mark`. */
static int skip_past(struct xml *xml, const char *mark)
{
	size_t n = strlen(mark);
	char *found = memmem(xml->at, (size_t)(xml->end - xml->at), mark, n);

	if (!found)
		return -EBADMSG;
	move_to(xml, found + n);
	return 0;
}

static bool begins(const struct xml *xml, const char *text)
{
	size_t n = strlen(text);

	return (size_t)(xml->end - xml->at) >= n && memcmp(xml->at, text, n) == 0;
}

static bool is_name_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == ':' || c == '.';
}

/* The name that begins here. *ret_next is the byte behind it, which the zero overwrites. */
static const char *take_name(struct xml *xml, char *ret_next)
{
	char *begin = xml->at, *at = begin;

	while (at < xml->end && is_name_byte(*at))
		at++;
	if (at == begin || at == xml->end)
		return NULL;
	*ret_next = *at;
	*at = 0;
	xml->at = at;
	return begin;
}

/* "&lt;" and its four fellows: what it stands for, and *text moves behind it. 0: another entity. */
static char take_entity(char **text)
{
	static const struct {
		const char *name;
		char c;
	} entities[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};

	for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++) {
		size_t n = strlen(entities[i].name);

		if (strncmp(*text, entities[i].name, n) == 0) {
			*text += n;
			return entities[i].c;
		}
	}
	return 0;
}

/* 16: none. */
static unsigned int digit_of(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *found = memchr(digits, tolower((unsigned char)c), 16);

	return found ? (unsigned int)(found - digits) : 16;
}

/* "&#95;" or "&#x5f;". What is not printable ASCII becomes '?': such characters occur in texts for people only. 0: it does not end. */
static char take_character(char **text)
{
	unsigned int base = (*text)[2] == 'x' ? 16 : 10, value = 0;
	char *at = *text + (base == 16 ? 3 : 2), *end = strchr(*text, ';');

	if (!end)
		return 0;
	for (; digit_of(*at) < base && value <= '~'; at++)
		value = value * base + digit_of(*at);
	*text = end + 1;
	return at == end && value >= ' ' && value <= '~' ? (char)value : '?';
}

/* References in place. False: an entity that is not known. */
static bool decode(char *text)
{
	char *to = text;

	while (*text) {
		char c = *text;

		if (c != '&')
			text++;
		else
			c = text[1] == '#' ? take_character(&text) : take_entity(&text);
		if (!c)
			return false;
		*to++ = c;
	}
	*to = 0;
	return true;
}

/* Behind the name, whose following byte was `next`. */
static int take_value(struct xml *xml, char next, const char **ret_value)
{
	char *value, *end;

	/* The zero stands where the next byte was. */
	*xml->at = next;
	skip_blanks(xml);
	if (xml->at == xml->end || *xml->at != '=')
		return -EBADMSG;
	xml->at++;
	skip_blanks(xml);
	if (xml->at == xml->end || (*xml->at != '"' && *xml->at != '\''))
		return -EBADMSG;
	value = xml->at + 1;
	end = memchr(value, *xml->at, (size_t)(xml->end - value));
	if (!end || memchr(value, 0, (size_t)(end - value)))
		return -EBADMSG;
	count_lines(xml, value, end);
	*end = 0;
	xml->at = end + 1;
	*ret_value = value;
	return decode(value) ? 0 : -EBADMSG;
}

static int take_attr(struct xml *xml)
{
	struct xml_attr attr;
	char *name_end, next;
	int r;

	if (xml->n_attrs == XML_MAX_ATTRS)
		return -E2BIG;
	attr.name = take_name(xml, &next);
	if (!attr.name)
		return -EBADMSG;
	name_end = xml->at;
	r = take_value(xml, next, &attr.value);
	if (r < 0)
		return r;
	*name_end = 0;
	xml->attrs[xml->n_attrs++] = attr;
	return 0;
}

/* The byte behind the last attribute or the name: '>', or "/>". */
static int take_end_of_tag(struct xml *xml, bool *ret_closes)
{
	*ret_closes = *xml->at == '/';
	xml->at += *ret_closes;
	if (xml->at == xml->end || *xml->at != '>')
		return -EBADMSG;
	xml->at++;
	return 0;
}

/* At the byte behind '<'. */
static int take_open(struct xml *xml)
{
	const char *name;
	char next, *name_end;
	int r;

	if (xml->depth == XML_MAX_DEPTH || ++xml->n_elements > XML_MAX_ELEMENTS)
		return -E2BIG;
	name = take_name(xml, &next);
	if (!name)
		return -EBADMSG;
	name_end = xml->at;
	*name_end = next;
	xml->n_attrs = 0;
	for (;;) {
		skip_blanks(xml);
		if (xml->at == xml->end)
			return -EBADMSG;
		if (*xml->at == '/' || *xml->at == '>')
			break;
		r = take_attr(xml);
		if (r < 0)
			return r;
	}
	r = take_end_of_tag(xml, &xml->closes);
	if (r < 0)
		return r;
	*name_end = 0;
	xml->name = name;
	xml->open[xml->depth++] = name;
	return XML_OPEN;
}

/* At the byte behind "</". */
static int take_close(struct xml *xml)
{
	char next;
	const char *name = take_name(xml, &next);

	if (!name || !xml->depth || strcmp(name, xml->open[xml->depth - 1]))
		return -EBADMSG;
	*xml->at = next;
	skip_blanks(xml);
	if (xml->at == xml->end || *xml->at != '>')
		return -EBADMSG;
	xml->at++;
	xml->name = xml->open[--xml->depth];
	return XML_CLOSE;
}

/* Text, comments and declarations up to the '<' of an element. 0: the text ends. */
static int find_tag(struct xml *xml)
{
	int r = 0;

	while (!r) {
		char *found = memchr(xml->at, '<', (size_t)(xml->end - xml->at));

		move_to(xml, found ? found : xml->end);
		if (!found)
			return 0;
		if (begins(xml, "<!--"))
			r = skip_past(xml, "-->");
		else if (begins(xml, "<?"))
			r = skip_past(xml, "?>");
		else if (begins(xml, "<!["))
			r = skip_past(xml, "]]>");
		else if (begins(xml, "<!"))
			r = skip_past(xml, ">");
		else
			return 1;
	}
	return r;
}

int xml_next(struct xml *xml)
{
	int r;

	if (xml->closes) {
		xml->closes = false;
		xml->name = xml->open[--xml->depth];
		return XML_CLOSE;
	}
	r = find_tag(xml);
	if (r < 0)
		return r;
	if (!r)
		return xml->depth || !xml->n_elements ? -EBADMSG : XML_END;
	/* One outermost element. */
	if (!xml->depth && xml->n_elements)
		return -EBADMSG;
	xml->at++;
	if (xml->at < xml->end && *xml->at == '/') {
		xml->at++;
		return take_close(xml);
	}
	return take_open(xml);
}

const char *xml_attr(const struct xml *xml, const char *name)
{
	for (unsigned int i = 0; i < xml->n_attrs; i++)
		if (strcmp(xml->attrs[i].name, name) == 0)
			return xml->attrs[i].value;
	return NULL;
}

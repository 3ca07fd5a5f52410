/* SPDX-License-Identifier: Apache-2.0 */
/* Strokes and letters of a picture. Every hostile text goes through ink_text(). */
#include <string.h>

#include "libclient/ctl/topology-picture.h"

static void put_ascii(FILE *out, char c)
{
	switch (c) {
	case '<':
		fputs("&lt;", out);
		break;
	case '>':
		fputs("&gt;", out);
		break;
	case '&':
		fputs("&amp;", out);
		break;
	case '"':
		fputs("&quot;", out);
		break;
	default:
		fputc(c < ' ' || c == 0x7f ? '?' : c, out);
	}
}

/* XML has no control characters and no noncharacters; hidden characters could deceive a reader. */
static bool is_shown(const char *text, unsigned int n_bytes)
{
	return n_bytes && !json_is_hidden(text);
}

void ink_text(FILE *out, const char *text, size_t max_chars)
{
	for (size_t i = 0; *text && i < max_chars; i++) {
		unsigned int n = json_utf8_bytes(text);

		if (n == 1)
			put_ascii(out, *text);
		else if (is_shown(text, n))
			fwrite(text, 1, n, out);
		else
			fputc('?', out);
		text += n ? n : 1;
	}
}

void ink_line(FILE *out, const char *attributes, unsigned int x1, unsigned int y1, unsigned int x2, unsigned int y2)
{
	fprintf(out, "<line %s x1=\"%u\" y1=\"%u\" x2=\"%u\" y2=\"%u\"/>\n", attributes, x1, y1, x2, y2);
}

void ink_rect(FILE *out, const char *class_name, const struct rect *at)
{
	fprintf(out, "<rect class=\"%s\" x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\"/>\n", class_name, at->x, at->y, at->width, at->height);
}

void ink_label(FILE *out, const char *class_name, unsigned int x, unsigned int y, const char *text, size_t max_chars)
{
	fprintf(out, "<text class=\"%s\" x=\"%u\" y=\"%u\">", class_name, x, y);
	ink_text(out, text, max_chars);
	fputs("</text>\n", out);
}

void ink_mark(FILE *out, unsigned int x, unsigned int y, const char *color)
{
	fprintf(out, "<circle class=\"default-mark\" cx=\"%u\" cy=\"%u\" r=\"4\" fill=\"%s\"/>\n", x, y, color);
}

unsigned int ink_width(size_t n_chars, unsigned int size)
{
	return size * (unsigned int)n_chars * INK_CHAR_PERCENT / 100;
}

/* Not every renderer can draw the outline of letters below them, so a rectangle covers the lines behind a name. */
void ink_name(FILE *out, const char *class_name, unsigned int size, unsigned int x, unsigned int y, const char *text)
{
	ink_rect(out, "behind", &(struct rect){x - 2, y - size, ink_width(strlen(text), size) + 4, size * 5 / 4});
	ink_label(out, class_name, x, y, text, SIZE_MAX);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads XML, element by element, in the buffer that it is in.
 *
 * Elements and attributes only: text between them, comments, declarations and processing instructions are passed over, and no entity
 * but the five of XML and characters by their numbers is known. So nothing outside the buffer is ever looked at. Files are hostile:
 * depth, attributes and elements are bounded.
 */
#ifndef SHMEMD_TOPO_XML_H
#define SHMEMD_TOPO_XML_H

#include <stdbool.h>
#include <stddef.h>

#define XML_MAX_DEPTH 64
#define XML_MAX_ATTRS 48
#define XML_MAX_ELEMENTS 200000u

enum xml_event {
	XML_END, /* behind the outermost element */
	XML_OPEN, /* name and attributes are set */
	XML_CLOSE, /* name is set */
};

struct xml_attr {
	const char *name;
	const char *value;
};

struct xml {
	char *at;
	char *end;
	const char *name;
	unsigned int n_attrs;
	struct xml_attr attrs[XML_MAX_ATTRS];
	unsigned int depth; /* elements that are open, the one of XML_OPEN included */
	const char *open[XML_MAX_DEPTH];
	unsigned int n_elements;
	bool closes; /* the element ended where it began */
	unsigned int line;
};

/* text[n_bytes] must be writable: it becomes 0. The names and values point into the text and live as long. */
void xml_init(struct xml *xml, char *text, size_t n_bytes);
/* An enum xml_event; -EBADMSG: not well formed; -E2BIG: beyond the bounds. */
int xml_next(struct xml *xml);
/* An attribute of the element that XML_OPEN reported; NULL: it has no such attribute. */
const char *xml_attr(const struct xml *xml, const char *name);

#endif

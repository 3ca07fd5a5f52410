/* SPDX-License-Identifier: Apache-2.0 */
/* See decode.h. */
#include "tests/mlx5sim/sim/decode.h"

#include <errno.h>
#include <string.h>

#include <rdma/ib_user_ioctl_verbs.h>

int decode_header(const struct ib_uverbs_ioctl_hdr *hdr, const char **ret_reason)
{
	if (hdr->reserved1 || hdr->reserved2) {
		*ret_reason = "reserved bits in the header";
		return -EPROTONOSUPPORT;
	}
	if (hdr->num_attrs > DECODE_ATTRS_MAX) {
		*ret_reason = "too many attributes";
		return -EINVAL;
	}
	if (hdr->length != sizeof(*hdr) + hdr->num_attrs * sizeof(hdr->attrs[0])) {
		*ret_reason = "length does not fit the number of attributes";
		return -EINVAL;
	}
	if (hdr->driver_id != RDMA_DRIVER_MLX5) {
		*ret_reason = "another driver's command";
		return -EINVAL;
	}
	return 0;
}

const struct method_spec *decode_method(const struct method_spec *table, size_t n, uint16_t object,
					uint16_t method)
{
	for (size_t i = 0; i < n; i++) {
		if (table[i].object == object && table[i].method == method)
			return &table[i];
	}
	return NULL;
}

static int check_attr(const struct attr_spec *spec, const struct ib_uverbs_attr *attr,
		      const char **ret_reason)
{
	bool sized = spec->kind == ATTR_IN || spec->kind == ATTR_OUT;

	if (attr->attr_data.reserved || attr->flags & ~(unsigned int)UVERBS_ATTR_F_MANDATORY) {
		*ret_reason = "reserved bits in an attribute";
		return -EINVAL;
	}
	if (!sized && attr->len) {
		*ret_reason = "a length where there is none";
		return -EINVAL;
	}
	if (sized && attr->len < spec->min_bytes) {
		*ret_reason = "an attribute is too short";
		return spec->kind == ATTR_OUT ? -ENOSPC : -EINVAL;
	}
	return 0;
}

static int find_spec(const struct method_spec *method, uint16_t id)
{
	for (size_t i = 0; i < method->n_attrs; i++) {
		if (method->attrs[i].id == id)
			return (int)i;
	}
	return -1;
}

int decode_attrs(const struct method_spec *method, const struct ib_uverbs_attr *attrs, size_t n,
		 struct decoded *ret_decoded, const char **ret_reason)
{
	struct decoded decoded = {.n_ignored = 0};
	int r;

	memset(decoded.place, -1, sizeof(decoded.place));
	for (size_t i = 0; i < n; i++) {
		int at = find_spec(method, attrs[i].attr_id);

		if (at < 0 && !(attrs[i].flags & UVERBS_ATTR_F_MANDATORY)) {
			decoded.n_ignored++;
			continue;
		}
		if (at < 0) {
			*ret_reason = "unknown attribute";
			return -EPROTONOSUPPORT;
		}
		if (decoded.place[at] >= 0) {
			*ret_reason = "an attribute twice";
			return -EINVAL;
		}
		r = check_attr(&method->attrs[at], &attrs[i], ret_reason);
		if (r < 0)
			return r;
		decoded.place[at] = (int8_t)i;
	}
	for (size_t i = 0; i < method->n_attrs; i++) {
		if (method->attrs[i].mandatory && decoded.place[i] < 0) {
			*ret_reason = "an attribute is missing";
			return -EINVAL;
		}
	}
	*ret_decoded = decoded;
	return 0;
}

bool decode_tail_is_zero(const void *data, size_t bytes, size_t known_bytes)
{
	const uint8_t *at = data;

	for (size_t i = known_bytes; i < bytes; i++) {
		if (at[i])
			return false;
	}
	return true;
}

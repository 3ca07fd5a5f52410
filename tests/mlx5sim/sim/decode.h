/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ioctl of uverbs, taken apart: which method, and are its attributes what that method takes? Pure: no client, no
 * device. It refuses unknown ones with a kernel's errno and a reason in words.
 */
#ifndef SHMEMD_TESTS_MLX5SIM_DECODE_H
#define SHMEMD_TESTS_MLX5SIM_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/rdma_user_ioctl_cmds.h>

#define DECODE_ATTRS_MAX 24

enum attr_kind {
	ATTR_IN,	 /* bytes: inline when 8 or fewer, else behind a pointer */
	ATTR_OUT,	 /* bytes behind a pointer */
	ATTR_OBJECT,	 /* handle of an object */
	ATTR_NEW_OBJECT, /* receives a handle */
	ATTR_FD,	 /* a descriptor of the caller */
	ATTR_NEW_FD,	 /* receives a descriptor */
};

struct attr_spec {
	uint16_t id;
	uint8_t kind; /* enum attr_kind */
	bool mandatory;
	uint16_t min_bytes; /* of ATTR_IN and ATTR_OUT */
	uint16_t max_bytes; /* ATTR_IN: what we know of; beyond that only zeros. 0: no limit */
};

struct call;

struct method_spec {
	uint16_t object;
	uint16_t method;
	const char *name;
	const struct attr_spec *attrs;
	size_t n_attrs;
	int (*run)(struct call *call);
};

struct decoded {
	int8_t place[DECODE_ATTRS_MAX]; /* of each attr_spec in the attributes sent; -1 absent */
	unsigned int n_ignored;		/* unknown and marked optional by the sender */
};

/* 0; -EINVAL or -EPROTONOSUPPORT (reserved bits) with a reason. */
int decode_header(const struct ib_uverbs_ioctl_hdr *hdr, const char **ret_reason);

const struct method_spec *decode_method(const struct method_spec *table, size_t n, uint16_t object,
					uint16_t method);

/* 0, -EINVAL, -ENOSPC (an output too small), -EPROTONOSUPPORT (an unknown attribute). */
int decode_attrs(const struct method_spec *method, const struct ib_uverbs_attr *attrs, size_t n,
		 struct decoded *ret_decoded, const char **ret_reason);

/* Are the bytes of an input beyond those we know of zero? */
bool decode_tail_is_zero(const void *data, size_t bytes, size_t known_bytes);

#endif

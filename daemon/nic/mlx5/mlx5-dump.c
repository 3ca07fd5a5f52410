/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands and answers in words, by the tables of prm.h.
 *
 *	INIT2RTR_QP in, 272 bytes
 *	  0x048/24   QPN = 0x12345
 *	  0x150/128  QPC.PATH.RGID = fe800000000000000000000000000001
 *	  0x0a0/32   in no field = 0x100
 *
 * Pure, never fails: short or unknown bytes are printed as they are. Any thread.
 */
#include "daemon/nic/mlx5/mlx5-cmd.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DUMP_MAX_BYTES PRM_QUERY_HCA_CAP_OUT_BYTES
#define PATH_MAX_CHARS 64

struct dump {
	char *buf;
	size_t size;
	size_t len; /* as if there were room for all */
	unsigned int flags;
	const uint8_t *bytes;
	size_t n_bytes;
	uint8_t rest[DUMP_MAX_BYTES]; /* bytes that no field has printed yet */
};

static void put(struct dump *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct dump *d, const char *fmt, ...)
{
	size_t room = d->len < d->size ? d->size - d->len : 0;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(room ? d->buf + d->len : NULL, room, fmt, args);
	va_end(args);
	if (n > 0)
		d->len += (size_t)n;
}

/* Byte strings begin on a byte. */
static void put_bytes(struct dump *d, uint32_t bit, uint32_t width)
{
	for (uint32_t i = 0; i < width / 8; i++)
		put(d, "%02x", d->bytes[bit / 8 + i]);
}

/* True when one of these bits is set; they count as told. */
static bool take_bits(struct dump *d, uint32_t bit, uint32_t width)
{
	bool any = false;

	for (; width > 0; bit++, width--) {
		uint8_t mask = (uint8_t)(0x80 >> bit % 8);

		any |= d->bytes[bit / 8] & mask;
		d->rest[bit / 8] &= (uint8_t)~mask;
	}
	return any;
}

static void dump_field(struct dump *d, const char *path, const char *name, uint32_t at)
{
	uint32_t bit = PRM_BIT(at), width = PRM_WIDTH(at);
	char where[24];
	bool any;

	if ((uint64_t)bit + width > d->n_bytes * 8)
		return;
	any = take_bits(d, bit, width);
	if (!any && !(d->flags & MLX5_DUMP_ALL))
		return;
	snprintf(where, sizeof(where), "0x%03x/%u", bit, width);
	put(d, "  %-10s %s%s = ", where, path, name);
	if (width > 64)
		put_bytes(d, bit, width);
	else
		put(d, "0x%llx", (unsigned long long)prm_get(d->bytes, at));
	put(d, "\n");
}

/* Structures are at most three deep: command, qpc, ads. */
static void dump_struct(struct dump *d, const struct prm_struct *s, const char *path, uint32_t base)
{
	char inner[PATH_MAX_CHARS];

	for (uint32_t i = 0; i < s->n_fields; i++) {
		const struct prm_field *field = &s->fields[i];

		if (!field->inner) {
			dump_field(d, path, field->name, field->at + base);
			continue;
		}
		snprintf(inner, sizeof(inner), "%s%s.", path, field->name);
		dump_struct(d, field->inner, inner, field->at + base);
	}
}

static void dump_rest(struct dump *d)
{
	size_t limit = d->n_bytes < DUMP_MAX_BYTES ? d->n_bytes : DUMP_MAX_BYTES;

	for (size_t i = 0; i + 4 <= limit; i += 4) {
		uint32_t dword = (uint32_t)prm_get(d->rest + i, PRM_AT(0, 32));
		char where[24];

		snprintf(where, sizeof(where), "0x%03zx/32", i * 8);
		if (dword)
			put(d, "  %-10s in no field = 0x%x\n", where, dword);
	}
	if (d->n_bytes > DUMP_MAX_BYTES)
		put(d, "  %zu more bytes\n", d->n_bytes - DUMP_MAX_BYTES);
}

static void dump_begin(struct dump *d, char *buf, size_t size, const void *bytes, size_t n,
		       unsigned int flags)
{
	d->buf = buf;
	d->size = size;
	d->len = 0;
	d->flags = flags;
	d->bytes = bytes;
	d->n_bytes = n;
	if (size > 0)
		buf[0] = '\0';
	memcpy(d->rest, bytes, n < DUMP_MAX_BYTES ? n : DUMP_MAX_BYTES);
}

int mlx5_cmd_dump(char *buf, size_t size, const void *in, size_t bytes, unsigned int flags)
{
	const struct prm_command *command;
	struct dump d;
	uint32_t opcode;

	dump_begin(&d, buf, size, in, bytes, flags);
	opcode = bytes >= 2 ? (uint32_t)prm_get(in, PRM_IN_OPCODE) : 0;
	command = prm_command_find(opcode);
	put(&d, "%s in, %zu bytes\n", prm_opcode_name(opcode), bytes);
	dump_field(&d, "", "OPCODE", PRM_IN_OPCODE);
	dump_field(&d, "", "UID", PRM_IN_UID);
	dump_field(&d, "", "OP_MOD", PRM_IN_OP_MOD);
	if (command)
		dump_struct(&d, command->in, "", 0);
	dump_rest(&d);
	return (int)d.len;
}

/* The one answer whose layout depends on the question. */
static void dump_cap(struct dump *d, uint32_t op_mod)
{
	const struct prm_struct *cap = prm_cap_struct(op_mod);

	if (cap)
		dump_struct(d, cap, "CAP.", PRM_QUERY_HCA_CAP_OUT_CAP);
}

int mlx5_out_dump(char *buf, size_t size, uint32_t opcode, uint32_t op_mod, const void *out,
		  size_t bytes, unsigned int flags)
{
	const struct prm_command *command = prm_command_find(opcode);
	struct dump d;

	dump_begin(&d, buf, size, out, bytes, flags);
	put(&d, "%s out, %zu bytes", prm_opcode_name(opcode), bytes);
	if (bytes > 0)
		put(&d, ": %s", prm_status_words((uint32_t)prm_get(out, PRM_OUT_STATUS)));
	put(&d, "\n");
	dump_field(&d, "", "STATUS", PRM_OUT_STATUS);
	dump_field(&d, "", "SYNDROME", PRM_OUT_SYNDROME);
	if (opcode == PRM_OP_QUERY_HCA_CAP)
		dump_cap(&d, op_mod);
	else if (command)
		dump_struct(&d, command->out, "", 0);
	dump_rest(&d);
	return (int)d.len;
}

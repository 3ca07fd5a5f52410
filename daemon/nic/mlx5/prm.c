/* SPDX-License-Identifier: Apache-2.0 */
/* Bit fields of firmware commands, and their tables as data. Any thread; no state. */
#include "daemon/nic/mlx5/prm.h"

#include <errno.h>
#include <string.h>

#include "proto/base/assert.h"

/* ---- fields ------------------------------------------------------------------------------------------------ */

void prm_set(void *buf, uint32_t field, uint64_t value)
{
	uint32_t width = PRM_WIDTH(field), end = PRM_BIT(field) + width;
	uint8_t *bytes = buf;

	assert_bug(width >= 1 && width <= 64);
	assert_bug(width == 64 || value >> width == 0);
	/* From the last bit to the first, a byte's share each time. */
	while (width > 0) {
		uint32_t shift = (8 - end % 8) % 8;
		uint32_t n = 8 - shift < width ? 8 - shift : width;
		uint8_t mask = (uint8_t)(((1u << n) - 1) << shift);
		uint8_t *byte = &bytes[(end - 1) / 8];

		*byte = (uint8_t)((*byte & ~mask) | ((value << shift) & mask));
		value >>= n;
		end -= n;
		width -= n;
	}
}

uint64_t prm_get(const void *buf, uint32_t field)
{
	uint32_t width = PRM_WIDTH(field), bit = PRM_BIT(field);
	const uint8_t *bytes = buf;
	uint64_t value = 0;

	assert_bug(width >= 1 && width <= 64);
	for (; width > 0; width--, bit++)
		value = value << 1 | (bytes[bit / 8] >> (7 - bit % 8) & 1);
	return value;
}

void prm_set_bytes(void *buf, uint32_t field, const void *bytes)
{
	assert_bug(PRM_BIT(field) % 8 == 0 && PRM_WIDTH(field) % 8 == 0 && PRM_WIDTH(field) > 0);
	memcpy((uint8_t *)buf + PRM_BIT(field) / 8, bytes, PRM_WIDTH(field) / 8);
}

void prm_get_bytes(const void *buf, uint32_t field, void *ret_bytes)
{
	assert_bug(PRM_BIT(field) % 8 == 0 && PRM_WIDTH(field) % 8 == 0 && PRM_WIDTH(field) > 0);
	memcpy(ret_bytes, (const uint8_t *)buf + PRM_BIT(field) / 8, PRM_WIDTH(field) / 8);
}

/* ---- tables -------------------------------------------------------------------------------------------------- */

/* A last empty entry, since some structures have no fields of their own. */
#define FIELD(s, name_, bit, width) {.name = #name_, .at = PRM_AT(bit, width)},
#define NEST(s, name_, bit, inner_) {.name = #name_, .at = PRM_AT(bit, 0), .inner = &struct_##inner_},
#define STRUCT(s, kind_, bits, source_)                                            \
	static const struct prm_field fields_##s[] = {PRM_FIELDS_##s(FIELD, NEST){0}}; \
	static const struct prm_struct struct_##s = {                              \
		.name = #s,                                                        \
		.source = source_,                                                 \
		.kind = PRM_KIND_##kind_,                                          \
		.n_bits = (bits),                                                  \
		.n_fields = sizeof(fields_##s) / sizeof(fields_##s[0]) - 1,        \
		.fields = fields_##s,                                              \
	};
PRM_STRUCTS(STRUCT)

#define STRUCT_ENTRY(s, kind, bits, source) &struct_##s,
const struct prm_struct *const prm_structs[] = {PRM_STRUCTS(STRUCT_ENTRY)};
const size_t prm_n_structs = sizeof(prm_structs) / sizeof(prm_structs[0]);

#define COMMAND_ENTRY(opcode_, name_, in_, out_) \
	{.opcode = (opcode_), .name = #name_, .in = &struct_##in_, .out = &struct_##out_},
const struct prm_command prm_commands[] = {PRM_COMMANDS(COMMAND_ENTRY)};
const size_t prm_n_commands = sizeof(prm_commands) / sizeof(prm_commands[0]);

const struct prm_command *prm_command_find(uint32_t opcode)
{
	for (size_t i = 0; i < prm_n_commands; i++) {
		if (prm_commands[i].opcode == opcode)
			return &prm_commands[i];
	}
	return NULL;
}

const struct prm_struct *prm_cap_struct(uint32_t op_mod)
{
	switch (op_mod >> 1) {
	case PRM_CAP_GENERAL:
		return &struct_HCA_CAP;
	case PRM_CAP_GENERAL_2:
		return &struct_HCA_CAP_2;
	case PRM_CAP_ODP:
		return &struct_ODP_CAP;
	case PRM_CAP_ATOMIC:
		return &struct_ATOMIC_CAP;
	case PRM_CAP_ROCE:
		return &struct_ROCE_CAP;
	default:
		return NULL;
	}
}

/* ---- words ----------------------------------------------------------------------------------------------------- */

const char *prm_opcode_name(uint32_t opcode)
{
	const struct prm_command *command = prm_command_find(opcode);

	return command ? command->name : "unknown command";
}

#define STATUS_CASE(number, name, words) \
	case number:                     \
		return words;

const char *prm_status_words(uint32_t status)
{
	switch (status) {
		PRM_STATUSES(STATUS_CASE)
	default:
		return "unknown status";
	}
}

int prm_status_errno(uint32_t status)
{
	switch (status) {
	case PRM_STATUS_OK:
		return 0;
	case PRM_STATUS_BAD_OP:
		return -EOPNOTSUPP;
	case PRM_STATUS_RES_BUSY:
		return -EBUSY;
	case PRM_STATUS_LIM:
	case PRM_STATUS_NO_RES:
		return -ENOSPC;
	case PRM_STATUS_BAD_PARAM:
	case PRM_STATUS_BAD_RES:
	case PRM_STATUS_BAD_RES_STATE:
	case PRM_STATUS_IX:
	case PRM_STATUS_BAD_QP_STATE:
		return -EINVAL;
	default:
		return -EIO;
	}
}

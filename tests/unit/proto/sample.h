/* SPDX-License-Identifier: Apache-2.0 */
/* Messages with every field set, made by walking the codec's tables; comparison of two messages, field by field. */
#ifndef SHMD_TESTS_UNIT_PROTO_SAMPLE_H
#define SHMD_TESTS_UNIT_PROTO_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/codec.h"

enum sample_fill {
	SAMPLE_MIN,    /* all zero, enums at their lowest, nothing optional */
	SAMPLE_MAX,    /* every number, length and count at its limit */
	SAMPLE_RANDOM, /* small counts, random values */
};

/*
 * Variants of a kind: all but list-rep have one. A list reply holds one of its arrays at a time, so it has one
 * variant for each. The caller calls msg_deinit.
 */
unsigned int sample_n_variants(enum msg_kind kind);
void sample_init(struct msg *msg, enum msg_kind kind, unsigned int variant, enum sample_fill fill,
		 uint64_t seed);

bool sample_is_equal(const struct msg *a, const struct msg *b);

/* splitmix64: the next number, and *state moves on. */
uint64_t sample_random(uint64_t *state);

/* Runs the body for every kind that exists. */
#define sample_for_each_kind(kind) \
	for (unsigned int kind = 0; kind <= MSG_KIND_MAX; kind++) \
		if (codec_kind(kind))

#endif

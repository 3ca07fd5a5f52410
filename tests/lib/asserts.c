/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value half of the asserts: compares, and on a difference says both values. Holds no state;
 * any thread may call.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#define VALUE_TEXT_MAX 64
#define DUMP_BYTES 16

struct test_value test_value_signed(long long v)
{
	return (struct test_value){.kind = TEST_SIGNED, .s = v};
}

struct test_value test_value_unsigned(unsigned long long v)
{
	return (struct test_value){.kind = TEST_UNSIGNED, .u = v};
}

struct test_value test_value_pointer(const volatile void *v)
{
	return (struct test_value){.kind = TEST_POINTER, .p = v};
}

struct test_value test_value_double(double v)
{
	return (struct test_value){.kind = TEST_DOUBLE, .d = v};
}

static bool is_negative(struct test_value v)
{
	return v.kind == TEST_SIGNED && v.s < 0;
}

static double as_double(struct test_value v)
{
	if (v.kind == TEST_DOUBLE)
		return v.d;
	return v.kind == TEST_SIGNED ? (double)v.s : (double)v.u;
}

static unsigned long long as_bits(struct test_value v)
{
	if (v.kind == TEST_POINTER)
		return (uintptr_t)v.p;
	return v.kind == TEST_SIGNED ? (unsigned long long)v.s : v.u;
}

static int compare_integers(struct test_value a, struct test_value b)
{
	unsigned long long x = as_bits(a), y = as_bits(b);

	if (is_negative(a) != is_negative(b))
		return is_negative(a) ? -1 : 1;
	return (x > y) - (x < y);
}

/* A NaN is unequal to everything and in no order, as in C. */
static bool holds_double(double x, enum test_op op, double y)
{
	switch (op) {
	case TEST_EQ:
		return x == y;
	case TEST_NE:
		return x != y;
	case TEST_LT:
		return x < y;
	case TEST_LE:
		return x <= y;
	case TEST_GT:
		return x > y;
	case TEST_GE:
		return x >= y;
	}
	return false;
}

static bool holds(struct test_value a, enum test_op op, struct test_value b)
{
	if (a.kind == TEST_DOUBLE || b.kind == TEST_DOUBLE)
		return holds_double(as_double(a), op, as_double(b));
	return holds_double(compare_integers(a, b), op, 0);
}

static void format_value(struct test_value v, char text[VALUE_TEXT_MAX])
{
	switch (v.kind) {
	case TEST_SIGNED:
		snprintf(text, VALUE_TEXT_MAX, "%lld", v.s);
		break;
	case TEST_UNSIGNED:
		snprintf(text, VALUE_TEXT_MAX, v.u > 9 ? "%llu (0x%llx)" : "%llu", v.u, v.u);
		break;
	case TEST_POINTER:
		snprintf(text, VALUE_TEXT_MAX, "%p", (void *)(uintptr_t)v.p);
		break;
	case TEST_DOUBLE:
		snprintf(text, VALUE_TEXT_MAX, "%.17g", v.d);
		break;
	}
}

void test_check_compare(const char *where, const char *text, struct test_value a, enum test_op op,
			struct test_value b)
{
	char left[VALUE_TEXT_MAX], right[VALUE_TEXT_MAX];

	if (holds(a, op, b))
		return;
	format_value(a, left);
	format_value(b, right);
	test_fail(where, "%s: left is %s, right is %s", text, left, right);
}

void test_check_streq(const char *where, const char *text, const char *a, const char *b)
{
	if (a == b || (a && b && strcmp(a, b) == 0))
		return;
	test_fail(where, "%s:\n  left  \"%s\"\n  right \"%s\"", text, a ? a : "(null)",
		  b ? b : "(null)");
}

static void format_bytes(const unsigned char *bytes, size_t n, char text[3 * DUMP_BYTES + 1])
{
	text[0] = '\0';
	for (size_t i = 0; i < n && i < DUMP_BYTES; i++)
		snprintf(text + 3 * i, 4, " %02x", bytes[i]);
}

void test_check_memeq(const char *where, const char *text, const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;
	char left[3 * DUMP_BYTES + 1], right[3 * DUMP_BYTES + 1];
	size_t at = 0;

	if (!n || !memcmp(a, b, n))
		return;
	while (at < n && x[at] == y[at])
		at++;
	format_bytes(x + at, n - at, left);
	format_bytes(y + at, n - at, right);
	test_fail(where, "%s: of %zu bytes the first difference is at %zu:\n  left %s\n  right%s",
		  text, n, at, left, right);
}

void test_check_ok(const char *where, const char *text, long long result)
{
	if (result == 0)
		return;
	if (result < 0 && result > -4096)
		test_fail(where, "%s: is %lld (%s), not 0", text, result, strerror((int)-result));
	test_fail(where, "%s: is %lld, not 0", text, result);
}

void test_check_err(const char *where, const char *text, long long result, int err)
{
	if (err > 0 && result == -(long long)err)
		return;
	test_fail(where, "%s: is %lld (%s), not %d", text, result,
		  result < 0 && result > -4096 ? strerror((int)-result) : "no errno", -err);
}

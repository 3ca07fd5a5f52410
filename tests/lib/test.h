/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_LIB_TEST_H
#define SHMD_TESTS_LIB_TEST_H

/*
 * The test runner's interface. A test program is a list of TEST() blocks, linked with
 * dep_testlib, which brings main().
 *
 *	TEST(overflow_is_refused)
 *	{
 *		size_t n;
 *
 *		ASSERT_ERR(size_mul(SIZE_MAX, 2, &n), EOVERFLOW);
 *	}
 *
 * Each test runs in a process of its own with an alarm, and must end with the fds it began with.
 * A failing assert prints both values and ends the process, from whichever thread or fork it was
 * called. tests/README.md has the rest.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Default seconds per test; four times as long under a sanitizer. */
#define TEST_DEFAULT_TIMEOUT_SEC 20u

/* Exit status of a program when all the tests it ran were skipped; meson's convention. */
#define TEST_EXIT_SKIP 77

struct test_case {
	const char *name;
	void (*run)(void);
	unsigned int timeout_sec;
	int line;
	bool waits;
};

#define TEST(name_) TEST_TIMEOUT(name_, TEST_DEFAULT_TIMEOUT_SEC)

#define TEST_TIMEOUT(name_, sec_) TEST_CASE(name_, sec_, false)

/*
 * One that waits for more than a second and needs little of a CPU meanwhile. It runs beside the other tests of its program, so it
 * shares nothing with them (a daemon, the name of a file), and measures nothing shorter than its wait.
 */
#define TEST_WAITS(name_, sec_) TEST_CASE(name_, sec_, true)

/* The section holds pointers: their alignment is one, whatever the compiler does to structs. */
#define TEST_CASE(name_, sec_, waits_)                                                             \
	static void test_run_##name_(void);                                                        \
	static const struct test_case test_case_##name_ = {.name = #name_,                         \
							   .run = test_run_##name_,                \
							   .timeout_sec = (sec_),                  \
							   .line = __LINE__,                       \
							   .waits = (waits_)};                     \
	static const struct test_case *const test_entry_##name_                                    \
		__attribute__((used, section("test_cases"))) = &test_case_##name_;                 \
	static void test_run_##name_(void)

/* Ends the running test as skipped and prints the reason; call it from the test's own thread. */
void test_skip(const char *reason) __attribute__((noreturn));

/* Ends the running test as failed with a message; `where` is "file:line". */
void test_fail(const char *where, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 2, 3)));

/*
 * How long to wait for other processes if the length is no guarantee: a minute, and four where a test may take four times as
 * long.
 */
uint64_t test_patience_nsec(void);

/* True under ASan or TSan, for tests whose size or time limits depend on it. */
bool test_has_sanitizer(void);

/* True under `tools/test --full` (SHMEMD_TEST_FULL=1): run the longer form. */
bool test_is_full(void);

/* An empty folder or file below $TMPDIR, else /tmp, for the test to remove: "shmemd-start-4f0aQz". */
void test_make_folder(char *path, size_t bytes, const char *name);
void test_make_file(char *path, size_t bytes, const char *name);

/* The program that runs this one (SHMEMD_TEST_EMULATOR, set by a cross file), or NULL. */
const char *test_emulator(void);

/* Any scalar, kept so that comparisons of signed with unsigned are the mathematical ones. */
struct test_value {
	enum { TEST_SIGNED, TEST_UNSIGNED, TEST_POINTER, TEST_DOUBLE } kind;
	union {
		long long s;
		unsigned long long u;
		const volatile void *p;
		double d;
	};
};

enum test_op { TEST_EQ, TEST_NE, TEST_LT, TEST_LE, TEST_GT, TEST_GE };

struct test_value test_value_signed(long long v);
struct test_value test_value_unsigned(unsigned long long v);
struct test_value test_value_pointer(const volatile void *v);
struct test_value test_value_double(double v);

void test_check_compare(const char *where, const char *text, struct test_value a, enum test_op op,
			struct test_value b);
void test_check_streq(const char *where, const char *text, const char *a, const char *b);
void test_check_memeq(const char *where, const char *text, const void *a, const void *b, size_t n);
void test_check_ok(const char *where, const char *text, long long result);
void test_check_err(const char *where, const char *text, long long result, int err);

#define TEST_STR2(x) #x
#define TEST_STR(x) TEST_STR2(x)
#define TEST_WHERE __FILE__ ":" TEST_STR(__LINE__)

/* clang-format off */
#define TEST_VALUE(x)                                                                              \
	_Generic((x),                                                                              \
		bool: test_value_unsigned,                                                         \
		char: test_value_signed,                                                           \
		signed char: test_value_signed,                                                    \
		short: test_value_signed,                                                          \
		int: test_value_signed,                                                            \
		long: test_value_signed,                                                           \
		long long: test_value_signed,                                                      \
		unsigned char: test_value_unsigned,                                                \
		unsigned short: test_value_unsigned,                                               \
		unsigned int: test_value_unsigned,                                                 \
		unsigned long: test_value_unsigned,                                                \
		unsigned long long: test_value_unsigned,                                           \
		float: test_value_double,                                                          \
		double: test_value_double,                                                         \
		default: test_value_pointer)(x)
/* clang-format on */

#define TEST_COMPARE(a, op, b, sign)                                                               \
	test_check_compare(TEST_WHERE, #a " " sign " " #b, TEST_VALUE(a), op, TEST_VALUE(b))

/* Integers of any two types, pointers, bools, doubles; operands are evaluated once. */
#define ASSERT_EQ(a, b) TEST_COMPARE(a, TEST_EQ, b, "==")
#define ASSERT_NE(a, b) TEST_COMPARE(a, TEST_NE, b, "!=")
#define ASSERT_LT(a, b) TEST_COMPARE(a, TEST_LT, b, "<")
#define ASSERT_LE(a, b) TEST_COMPARE(a, TEST_LE, b, "<=")
#define ASSERT_GT(a, b) TEST_COMPARE(a, TEST_GT, b, ">")
#define ASSERT_GE(a, b) TEST_COMPARE(a, TEST_GE, b, ">=")

#define ASSERT(x)                                                                                  \
	do {                                                                                       \
		if (!(x))                                                                          \
			test_fail(TEST_WHERE, "%s", #x);                                           \
	} while (0)

#define ASSERT_STREQ(a, b) test_check_streq(TEST_WHERE, #a " is " #b, (a), (b))
#define ASSERT_MEMEQ(a, b, n)                                                                      \
	test_check_memeq(TEST_WHERE, #a " has the bytes of " #b, (a), (b), (n))

/* The result is 0. */
#define ASSERT_OK(expr) test_check_ok(TEST_WHERE, #expr, (expr))

/* The result is the negative of `err`: ASSERT_ERR(session_new(...), EINVAL). */
#define ASSERT_ERR(expr, err) test_check_err(TEST_WHERE, #expr " gives -" #err, (expr), (err))

#endif

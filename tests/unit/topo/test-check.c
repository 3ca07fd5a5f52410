/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a node: each on a tree where it is good, on one where it fails, and on one that cannot be read. */
#include "tests/unit/topo/check-tree.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

struct told {
	unsigned int n, n_by_state[3];
	char worst[CHECK_TEXT_BYTES]; /* reasons of findings that are not good; the first */
};

static void note(void *arg, const struct check_finding *finding)
{
	struct told *told = arg;

	told->n++;
	told->n_by_state[finding->state]++;
	ASSERT(finding->reason[0]);
	ASSERT_EQ(finding->fix[0] != 0, finding->state != CHECK_OK);
	if (finding->state != CHECK_OK && !told->worst[0])
		snprintf(told->worst, sizeof(told->worst), "%s", finding->reason);
}

static const struct check *find_check(const char *name)
{
	const struct check *check = check_table;

	while (check->name && strcmp(check->name, name))
		check++;
	return check->name ? check : NULL;
}

static const struct check_case *find_case(const struct check_case *cases, const char *name)
{
	while (cases->check && strcmp(cases->check, name))
		cases++;
	return cases->check ? cases : NULL;
}

static struct told judge(const struct check *check, check_tree_fn *change)
{
	struct check_tree tree;
	struct told told = {0};

	check_tree_init(&tree);
	change(&tree);
	check_tree_run(&tree, check, note, &told);
	check_tree_deinit(&tree);
	printf("%s: %u OK, %u WARN, %u FAIL %s\n", check->name, told.n_by_state[CHECK_OK], told.n_by_state[CHECK_WARN],
	       told.n_by_state[CHECK_FAIL], told.worst);
	return told;
}

struct looked_for {
	enum check_state state, worst;
	const char *says, *fix;
	bool is_told;
};

static void look(void *arg, const struct check_finding *finding)
{
	struct looked_for *looked = arg;
	char text[CHECK_SUBJECT_BYTES + CHECK_TEXT_BYTES + 2];

	snprintf(text, sizeof(text), "%s%s%s", finding->subject, finding->subject[0] ? ": " : "", finding->reason);
	printf("%d %s %s\n", (int)finding->state, finding->check, text);
	ASSERT_EQ(finding->fix[0] != 0, finding->state != CHECK_OK);
	if (finding->state > looked->worst)
		looked->worst = finding->state;
	looked->is_told |= finding->state == looked->state && strstr(text, looked->says) &&
			   strstr(finding->fix, looked->fix);
}

/* The first check without all three trees; NULL: there is none. */
static const char *find_without_trees(const struct check *table, const struct check_case *cases)
{
	for (; table->name; table++) {
		const struct check_case *one = find_case(cases, table->name);

		if (!one || !one->good || !one->failing || !one->unread)
			return table->name;
	}
	return NULL;
}

TEST(every_check_has_a_good_a_failing_and_an_unreadable_tree)
{
	const char *name = find_without_trees(check_table, check_cases);

	if (name)
		test_fail(TEST_WHERE, "%s lacks a tree", name);
	for (const struct check_case *one = check_cases; one->check; one++)
		if (!find_check(one->check))
			test_fail(TEST_WHERE, "%s is no check", one->check);
}

TEST(a_check_without_its_trees_is_found)
{
	const struct check table[] = {{.name = "one"}, {.name = "two"}, {0}};
	struct check_case cases[] = {
		{"one", check_tree_leave, check_tree_leave, check_tree_leave, CHECK_WARN, ""},
		{"two", check_tree_leave, check_tree_leave, check_tree_leave, CHECK_WARN, ""},
		{0},
	};

	ASSERT(!find_without_trees(table, cases));
	cases[1].good = NULL;
	ASSERT_STREQ(find_without_trees(table, cases), "two");
	cases[0].failing = NULL;
	ASSERT_STREQ(find_without_trees(table, cases), "one");
	cases[0].failing = check_tree_leave;
	cases[0].unread = NULL;
	ASSERT_STREQ(find_without_trees(table, cases), "one");
	cases[0].check = "another";
	ASSERT_STREQ(find_without_trees(table, cases), "one");
}

TEST_TIMEOUT(good_trees_are_good, 100)
{
	for (const struct check_case *one = check_cases; one->check; one++) {
		struct told told = judge(find_check(one->check), one->good);

		ASSERT_EQ(told.n, 1u);
		ASSERT_EQ(told.n_by_state[CHECK_OK], 1u);
	}
}

TEST_TIMEOUT(the_machine_that_trees_are_made_of_is_good, 100)
{
	for (const struct check *check = check_table; check->name; check++)
		ASSERT_EQ(judge(check, check_tree_leave).n_by_state[CHECK_OK], 1u);
}

TEST_TIMEOUT(failing_trees_are_reported_with_reason_and_fix, 100)
{
	for (const struct check_case *one = check_cases; one->check; one++) {
		struct told told = judge(find_check(one->check), one->failing);

		ASSERT_GE(told.n_by_state[one->state], 1u);
		ASSERT_EQ(told.n_by_state[CHECK_OK], 0u);
		if (!strstr(told.worst, one->says))
			test_fail(TEST_WHERE, "%s: \"%s\" is not in \"%s\"", one->check, one->says, told.worst);
	}
}

TEST_TIMEOUT(unreadable_facts_are_a_warning_and_never_good, 100)
{
	for (const struct check_case *one = check_cases; one->check; one++) {
		struct told told = judge(find_check(one->check), one->unread);

		ASSERT_GE(told.n_by_state[CHECK_WARN], 1u);
		ASSERT_EQ(told.n_by_state[CHECK_OK] + told.n_by_state[CHECK_FAIL], 0u);
		if (!strstr(told.worst, "not known"))
			test_fail(TEST_WHERE, "%s: \"%s\" does not say that it is not known", one->check, told.worst);
	}
}

static bool is_judged_so(const struct check_verdict *verdict)
{
	struct looked_for looked = {.state = verdict->state,
				    .worst = CHECK_OK,
				    .says = verdict->says,
				    .fix = verdict->fix ? verdict->fix : ""};
	struct check_tree tree;

	check_tree_init(&tree);
	verdict->change(&tree);
	check_tree_run(&tree, find_check(verdict->check), look, &looked);
	check_tree_deinit(&tree);
	return looked.is_told && looked.worst == verdict->state;
}

static void expect_judged_so(const struct check_verdict *one)
{
	unsigned int n_wrong = 0;

	for (; one->check; one++) {
		if (is_judged_so(one))
			continue;
		printf("wrong: %s is not told with state %d, \"%s\" and fix \"%s\"\n", one->check,
		       (int)one->state, one->says, one->fix ? one->fix : "");
		n_wrong++;
	}
	ASSERT_EQ(n_wrong, 0u);
}

TEST_TIMEOUT(machines_on_which_a_check_is_easily_wrong, 200)
{
	expect_judged_so(check_verdicts);
}

TEST_TIMEOUT(nodes_of_which_a_check_easily_claims_too_much, 100)
{
	expect_judged_so(check_verdicts_node);
}

TEST_TIMEOUT(unreadable_facts_and_wrong_answers, 100)
{
	expect_judged_so(check_verdicts_unread);
}

TEST_TIMEOUT(daemons_of_which_a_check_easily_tells_something_wrong, 100)
{
	expect_judged_so(check_verdicts_daemon);
}

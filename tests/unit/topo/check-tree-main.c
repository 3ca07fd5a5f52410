/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that are no tests of ours. "check-tree checks" prints the name of each check that has trees; "check-tree tree" makes
 * the one that CHECK_TREE names ("CHECK good|failing|unread"), prints "tree FOLDER STATE MORE", with the state where it fails, and leaves it. MORE is
 * "always" where the command says that of all three, since it has the folder alone, else "there".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/topo/check-tree.h"

TEST(checks)
{
	for (const struct check_case *one = check_cases; one->check; one++)
		printf("check %s\n", one->check);
}

TEST(tree)
{
	const char *wanted = getenv("CHECK_TREE"), *state = wanted ? strchr(wanted, ' ') : NULL;
	const struct check_case *one = check_cases;
	struct check_tree tree;

	if (!state)
		test_skip("CHECK_TREE names no tree");
	while (one->check && (strlen(one->check) != (size_t)(state - wanted) || strncmp(one->check, wanted, strlen(one->check))))
		one++;
	ASSERT(one->check);
	check_tree_init(&tree);
	(state[1] == 'f' ? one->failing : state[1] == 'u' ? one->unread : one->good)(&tree);
	printf("tree %s %s %s\n", tree.machine.files.root, one->of_folder ? one->of_folder : one->state == CHECK_FAIL ? "fail" : "warn",
	       one->of_folder ? "always" : "there");
}

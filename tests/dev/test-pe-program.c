/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation among PEs that map each other, alone and from eight threads a PE. The suite runs under TSan too. */
#include "tests/dev/pe-program-lab.h"

static void run(uint32_t n_pes, uint32_t n_threads)
{
	struct pe_lab *lab = pe_lab_new(n_pes);

	pe_lab_program(lab, n_threads);
	pe_lab_free(lab);
}

TEST_TIMEOUT(every_operation_works_on_mapped_memory, 60)
{
	run(1, 1);
	run(2, 1);
	run(3, 1);
	run(8, 1);
}

TEST_TIMEOUT(every_operation_works_in_eight_threads_of_each_pe, 120)
{
	run(1, 8);
	run(3, 8);
	run(4, 8);
}

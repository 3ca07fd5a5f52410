/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of real launchers, where they are installed: Hydra (PMI-1, PMI-2, MPICH), Open MPI (PMIx, MPI, OpenSHMEM). SHMEMD_OPENSHMEM names prefixes of
 * Sandia OpenSHMEM, with colons between them.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_BYTES 16384
#define N_RANKS 3

/* True if this program is in PATH. */
static bool is_installed(const char *name)
{
	const char *path = getenv("PATH");
	char file[512];

	for (const char *folder = path; folder && *folder; folder += *folder == ':') {
		size_t n = strcspn(folder, ":");

		snprintf(file, sizeof(file), "%.*s/%s", (int)n, folder, name);
		if (!access(file, X_OK))
			return true;
		folder += n;
	}
	return false;
}

static int run(const char *command, char output[OUTPUT_BYTES])
{
	FILE *stream = popen(command, "r");
	size_t n;

	ASSERT(stream);
	n = fread(output, 1, OUTPUT_BYTES - 1, stream);
	output[n] = 0;
	return pclose(stream);
}

static void expect_job(const char *launcher, const char *module, const char *arguments)
{
	char command[1024], output[OUTPUT_BYTES], line[128];
	int status;

	if (test_emulator())
		test_skip("the kernel cannot start programs for an emulator");
	snprintf(command, sizeof(command), "%s -n %d %s %s %s 2>&1", launcher, N_RANKS, SHMD_TEST_RANK, module, arguments);
	status = run(command, output);
	if (strstr(output, "no library: "))
		test_skip("the launcher's library is not installed");
	if (status)
		printf("%s\n", output);
	ASSERT_EQ(status, 0);
	for (int rank = 0; rank < N_RANKS; rank++) {
		snprintf(line, sizeof(line), "rank %d of %d by %s, %d of %d on this node\n", rank, N_RANKS,
			 strcmp(module, "auto") ? module : *arguments ? "mpi" : "pmi1", rank, N_RANKS);
		ASSERT(strstr(output, line));
	}
}

static void need(const char *name)
{
	char text[64];

	if (test_has_sanitizer())
		test_skip("the libraries of launchers have leaks of their own");
	snprintf(text, sizeof(text), "%s is not installed", name);
	if (!is_installed(name))
		test_skip(text);
}

static const char *need_hydra(void)
{
	need("mpiexec.hydra");
	return "mpiexec.hydra";
}

static const char *need_open_mpi(void)
{
	need("mpirun.openmpi");
	/* Its daemon refuses root without these. */
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	return "mpirun.openmpi --oversubscribe";
}

TEST_TIMEOUT(hydra_by_pmi_1, 120)
{
	expect_job(need_hydra(), "pmi1", "");
}

TEST_TIMEOUT(hydra_by_what_it_leaves_in_the_environment, 120)
{
	expect_job(need_hydra(), "auto", "");
}

TEST_TIMEOUT(hydra_by_pmi_2, 120)
{
	expect_job(need_hydra(), "pmi2", "");
}

TEST_TIMEOUT(hydra_and_mpich_by_mpi, 120)
{
	expect_job(need_hydra(), "mpi", "libmpich.so.12 MPI_Init MPI_Finalize");
}

TEST_TIMEOUT(a_process_that_has_initialised_mpi_uses_it, 120)
{
	expect_job(need_hydra(), "auto", "libmpich.so.12 MPI_Init MPI_Finalize");
}

TEST_TIMEOUT(open_mpi_by_pmix, 120)
{
	expect_job(need_open_mpi(), "pmix", "");
}

TEST_TIMEOUT(open_mpi_by_mpi, 120)
{
	expect_job(need_open_mpi(), "mpi", "libmpi.so.40 MPI_Init MPI_Finalize");
}

/* ---- communicators other than MPI_COMM_WORLD --------------------------------------------------------------------------------- */

#define N_OF_WORLD 5

static void run_with_comm(const char *launcher, const char *how, const char *library, char output[OUTPUT_BYTES])
{
	char command[1024];
	int status;

	if (test_emulator())
		test_skip("the kernel cannot start programs for an emulator");
	setenv("BOOTSTRAP_RANK_COMM", how, 1);
	snprintf(command, sizeof(command), "%s -n %d %s auto %s MPI_Init MPI_Finalize 2>&1", launcher, N_OF_WORLD, SHMD_TEST_RANK, library);
	status = run(command, output);
	if (strstr(output, "no library: "))
		test_skip("the launcher's library is not installed");
	if (status)
		printf("%s\n", output);
	ASSERT_EQ(status, 0);
}

static void expect_member(const char *output, int world_rank, int rank, int size)
{
	char line[128];

	snprintf(line, sizeof(line), "rank %d of MPI_COMM_WORLD is rank %d of %d\n", world_rank, rank, size);
	ASSERT(strstr(output, line));
}

/* Ranks 4, 2, 0 are one job, 3, 1 another, at the same time; then the same ranks as in the world, by another handle. */
static void expect_comms(const char *launcher, const char *library)
{
	char output[OUTPUT_BYTES];

	run_with_comm(launcher, "split", library, output);
	for (int rank = 0; rank < N_OF_WORLD; rank++)
		expect_member(output, rank, (N_OF_WORLD - 1 - rank) / 2, rank % 2 ? 2 : 3);
	run_with_comm(launcher, "dup", library, output);
	for (int rank = 0; rank < N_OF_WORLD; rank++)
		expect_member(output, rank, rank, N_OF_WORLD);
}

TEST_TIMEOUT(communicators_of_mpich, 120)
{
	expect_comms(need_hydra(), "libmpich.so.12");
}

TEST_TIMEOUT(communicators_of_open_mpi, 120)
{
	expect_comms(need_open_mpi(), "libmpi.so.40");
}

/* ---- OpenSHMEM --------------------------------------------------------------------------------------------------------------- */

static unsigned int count(const char *text, const char *what)
{
	unsigned int n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/*
 * Open MPI's and Sandia's OpenSHMEM fail where addresses are random. Debian's liboshmem crashes in its own shmem_finalize(), so the status counts only
 * for others.
 */
static void expect_shmem(const char *launcher, const char *library, bool ends_well)
{
	char command[1024], output[OUTPUT_BYTES], line[128];
	int status;

	if (test_emulator())
		test_skip("the kernel cannot start programs for an emulator");
	if (run("setarch -R true 2>&1", output))
		test_skip("this user may not run programs without random addresses (setarch -R)");
	snprintf(command, sizeof(command), "setarch -R %s -n %d %s openshmem %s shmem_init shmem_finalize 2>&1", launcher, N_RANKS,
		 SHMD_TEST_RANK, library);
	status = run(command, output);
	if (strstr(output, "no library: "))
		test_skip("the OpenSHMEM library is not installed");
	printf("%s\n", output);
	for (int rank = 0; rank < N_RANKS; rank++) {
		snprintf(line, sizeof(line), "rank %d of %d by openshmem, %d of %d on this node\n", rank, N_RANKS, rank, N_RANKS);
		ASSERT(strstr(output, line));
	}
	ASSERT_EQ(count(output, "a rank is done\n"), N_RANKS);
	if (ends_well)
		ASSERT_EQ(status, 0);
}

TEST_TIMEOUT(open_mpi_by_openshmem, 120)
{
	expect_shmem(need_open_mpi(), "liboshmem.so.40", false);
}

TEST_TIMEOUT(sandia_openshmem, 120)
{
	const char *prefixes = getenv("SHMEMD_OPENSHMEM");
	const char *launcher = need_hydra();
	unsigned int n_run = 0;

	while (prefixes && *prefixes) {
		int n = (int)strcspn(prefixes, ":");
		char library[512];

		snprintf(library, sizeof(library), "%.*s/lib/libsma.so", n, prefixes);
		prefixes += n + (prefixes[n] == ':');
		if (access(library, R_OK))
			continue;
		expect_shmem(launcher, library, true);
		n_run++;
	}
	if (!n_run)
		test_skip("SHMEMD_OPENSHMEM names no prefix with lib/libsma.so");
}

/* A launcher may drop what its processes write last, so their status decides: without the abort they would not end at all. */
static void expect_abort(const char *launcher, const char *module)
{
	char command[1024], output[OUTPUT_BYTES];
	int status;

	if (test_emulator())
		test_skip("the kernel cannot start programs for an emulator");
	snprintf(command, sizeof(command), "%s -n %d %s %s 2>&1", launcher, N_RANKS, SHMD_TEST_RANK, module);
	setenv("BOOTSTRAP_RANK_END", "abort", 1);
	status = run(command, output);
	printf("%s\n", output);
	ASSERT(WIFEXITED(status));
	ASSERT_EQ(WEXITSTATUS(status), 17);
	ASSERT(strstr(output, "rank 1 of 3"));
}

TEST_TIMEOUT(abort_ends_a_job_of_hydra, 120)
{
	expect_abort(need_hydra(), "pmi1");
}

TEST_TIMEOUT(abort_ends_a_job_of_open_mpi, 120)
{
	expect_abort(need_open_mpi(), "pmix");
}

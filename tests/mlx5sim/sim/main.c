/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlx5sim: runs a command and its children with simulated ConnectX devices. Listens for them, one thread for each open
 * device, and ends with the command's status; what still runs then finds its devices gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/mlx5sim/sim/sim.h"

#define STATUS_GO_ON (124 << 8) /* as waitpid() has it */

static const char help[] =
	"usage: mlx5sim [--nics N] [--link ib|roce] [--log FILE] [--] COMMAND [ARGUMENT...]\n"
	"\n"
	"Runs COMMAND and its children with N (1 to 8) simulated ConnectX devices, mlx5_0 and so "
	"on, that libibverbs and\n"
	"libmlx5 take for real ones.\n"
	"\n"
	"  --nics N        number of devices; 1\n"
	"  --link ib|roce  of all ports; roce\n"
	"  --atomics all|big-endian|plain|none\n"
	"                  which there are; all. big-endian: results of 8 bytes arrive so; plain: none that are masked\n"
	"  --atomics-apart what a CPU does to a word during an atomic of a device is lost\n"
	"  --fatal-after MS[,MS]\n"
	"                  mlx5_0 is lost so many milliseconds after a device was first opened, and "
	"is back at the second time\n"
	"  --port-down MS[,MS]\n"
	"                  its port goes down, and up again\n"
	"  --fw-latency US how long each firmware command takes, in microseconds; 0\n"
	"  --patience SEC  how long clients are waited for when COMMAND has ended; 30\n"
	"  --memfd-dmabuf  take a memfd where a dmabuf is asked for\n"
	"  --log FILE      what was refused, and why; standard error\n"
	"  --trace FILE    every firmware command, in words\n"
	"  --help          this text\n"
	"\n"
	"A line \"fatal N\", \"return N\", \"port-down N\", \"port-up N\", \"mtu-gone N\", \"mtu-back N\", \"gid-gone N\",\n"
	"\"gid-back N\", \"lanes-gone N\" or \"lanes-back N\" written to $MLX5SIM_ROOT/control does it at once, to mlx5_N.\n"
	"\n"
	"Exit status: the command's; 128 and its number when a signal ended it; 2 usage; 125 no "
	"devices; 124 the\n"
	"command succeeded, and clients of it go on.\n";

void sim_log(struct sim *sim, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(sim->log, "mlx5sim: %s\n", line);
	fflush(sim->log);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

/* ---- devices --------------------------------------------------------------------------------------------------- */

static int listen_for(const struct sim *sim, int nic)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), n;

	n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/nic%d.sock", sim->root, nic);
	if (sock < 0 || n < 0 || (size_t)n >= sizeof(at.sun_path))
		return -ENAMETOOLONG;
	if (bind(sock, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(sock, 128) < 0)
		return -errno;
	return sock;
}

static void accept_client(struct sim *sim, struct nic *nic, int listener)
{
	int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct ufile *ufile = sock < 0 ? NULL : calloc(1, sizeof(*ufile));
	pthread_attr_t attr;
	pthread_t thread;

	if (!ufile || nic->lost || (ufile->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
		if (sock >= 0)
			close(sock);
		free(ufile);
		return;
	}
	ufile->sim = sim;
	ufile->nic = nic;
	ufile->sock = sock;
	list_init(&ufile->objects);
	hash_init(&ufile->handles);
	hash_init(&ufile->names);
	list_init(&ufile->port_subscriptions);
	pthread_mutex_lock(&sim->lock);
	list_add_tail(&nic->ufiles, &ufile->nic_link);
	__atomic_add_fetch(&sim->n_open[nic->index], 1, __ATOMIC_RELAXED);
	sim->n_ufiles++;
	pthread_cond_broadcast(&sim->wake);
	pthread_mutex_unlock(&sim->lock);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, ufile_thread, ufile) != 0)
		abort();
	pthread_attr_destroy(&attr);
}

static int sim_start(struct sim *sim, int listeners[])
{
	const char *tmp = getenv("TMPDIR");
	int r;

	r = snprintf(sim->root, sizeof(sim->root), "%s/mlx5sim-XXXXXX",
		     tmp && tmp[0] == '/' ? tmp : "/tmp");
	if (r < 0 || (size_t)r >= sizeof(sim->root) || !mkdtemp(sim->root)) {
		sim->root[0] = 0;
		return -ENAMETOOLONG;
	}
	r = clock_init(sim);
	if (r < 0)
		return r;
	for (int i = 0; i < sim->n_nics; i++) {
		r = nic_init(&sim->nics[i], sim, i);
		if (r < 0)
			return r;
		listeners[i] = listen_for(sim, i);
		if (listeners[i] < 0)
			return listeners[i];
	}
	sim->control = control_open(sim);
	if (sim->control < 0)
		return sim->control;
	r = control_count_open(sim);
	return r < 0 ? r : sim_write_tree(sim);
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

/* The shim lies beside this program. */
static int prepare_environment(const struct sim *sim)
{
	char path[PATH_MAX], value[2 * PATH_MAX];
	const char *before = getenv("LD_PRELOAD");
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (n < 0)
		return -errno;
	path[n] = 0;
	slash = strrchr(path, '/');
	if (!slash)
		return -ENOENT;
	snprintf(value, sizeof(value), "%.*s/mlx5sim-shim.so%s%s", (int)(slash - path), path,
		 before ? ":" : "", before ? before : "");
	return setenv("LD_PRELOAD", value, 1) < 0 || setenv(SIM_ENV_ROOT, sim->root, 1) < 0 ? -errno
											    : 0;
}

static pid_t run_command(const struct sim *sim, char **argv, const sigset_t *mask,
			 const struct rlimit *files)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	setrlimit(RLIMIT_NOFILE, files);
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (prepare_environment(sim) == 0)
		execvp(argv[0], argv);
	fprintf(stderr, "mlx5sim: %s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/* Descriptors of all clients' objects are here; the command keeps the limit that it would have without a simulator. */
static void raise_files_limit(struct rlimit *ret_before)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, ret_before) < 0)
		abort();
	most = *ret_before;
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
}

/* Until the command ends: its wait status. */
static int serve(struct sim *sim, const int listeners[], int signals, pid_t command)
{
	struct pollfd fds[SIM_NICS_MAX + 2];
	struct signalfd_siginfo info;
	int status;

	for (int i = 0; i < sim->n_nics; i++)
		fds[i] = (struct pollfd){.fd = listeners[i], .events = POLLIN};
	fds[sim->n_nics] = (struct pollfd){.fd = signals, .events = POLLIN};
	fds[sim->n_nics + 1] = (struct pollfd){.fd = sim->control, .events = POLLIN};
	for (;;) {
		if (poll(fds, (nfds_t)sim->n_nics + 2, control_turn(sim)) < 0 && errno != EINTR)
			abort();
		if (fds[sim->n_nics + 1].revents & POLLIN)
			control_read(sim, sim->control);
		for (int i = 0; i < sim->n_nics; i++) {
			if (fds[i].revents & POLLIN)
				accept_client(sim, &sim->nics[i], listeners[i]);
		}
		if (!(fds[sim->n_nics].revents & POLLIN) ||
		    read(signals, &info, sizeof(info)) != sizeof(info))
			continue;
		if (info.ssi_signo != SIGCHLD)
			kill(command, (int)info.ssi_signo);
		else if (waitpid(command, &status, WNOHANG) == command)
			return status;
	}
}

/* Clients that have ended are still being cleaned up after for a moment. False: some go on. */
static bool await_clients(struct sim *sim)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += sim->patience_sec;
	pthread_mutex_lock(&sim->lock);
	while (sim->n_ufiles && r == 0)
		r = pthread_cond_timedwait(&sim->wake, &sim->lock, &until);
	sim->stopping = true;
	pthread_cond_broadcast(&sim->wake);
	r = (int)sim->n_ufiles;
	pthread_mutex_unlock(&sim->lock);
	return r == 0;
}

static int sim_run(struct sim *sim, char **argv)
{
	int listeners[SIM_NICS_MAX], signals, status, r;
	sigset_t mask, before;
	struct rlimit files;
	pthread_t thread;
	pid_t command;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigprocmask(SIG_BLOCK, &mask, &before);
	signals = signalfd(-1, &mask, SFD_CLOEXEC);
	raise_files_limit(&files);
	r = sim_start(sim, listeners);
	if (r < 0 || signals < 0) {
		fprintf(stderr, "mlx5sim: no devices: %s\n", strerror(-r));
		return 125;
	}
	command = run_command(sim, argv, &before, &files);
	if (command < 0 || pthread_create(&thread, NULL, nic_thread, sim) != 0)
		return 125;
	status = serve(sim, listeners, signals, command);
	if (await_clients(sim)) {
		pthread_join(thread, NULL);
		for (int i = 0; i < sim->n_nics; i++)
			nic_deinit(&sim->nics[i]);
	} else {
		sim_log(sim, "the command ended and clients of it go on");
		status = status ? status : STATUS_GO_ON;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- options --------------------------------------------------------------------------------------------------- */

static int take_atomics(struct sim *sim, const char *value)
{
	static const char *const words[] = {[SIM_ATOMICS_ALL] = "all",
					    [SIM_ATOMICS_BIG_ENDIAN] = "big-endian",
					    [SIM_ATOMICS_PLAIN] = "plain",
					    [SIM_ATOMICS_NONE] = "none"};

	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(value, words[i]) == 0) {
			sim->atomics = (enum sim_atomics)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int take_option(struct sim *sim, int option, const char *value)
{
	char *end;

	switch (option) {
	case 'n':
		sim->n_nics = (int)strtol(value, &end, 10);
		return *end || sim->n_nics < 1 || sim->n_nics > SIM_NICS_MAX ? -EINVAL : 0;
	case 'l':
		sim->ethernet = strcmp(value, "roce") == 0;
		return sim->ethernet || strcmp(value, "ib") == 0 ? 0 : -EINVAL;
	case 'm':
		return take_atomics(sim, value);
	case 'c':
		sim->atomics_apart = true;
		return 0;
	case 'f':
		return control_plan(sim, HAPPEN_FATAL, value);
	case 'p':
		return control_plan(sim, HAPPEN_PORT_DOWN, value);
	case 'w':
		sim->fw_latency_usec = strtoull(value, &end, 10);
		return *end || !*value || sim->fw_latency_usec > 10000000 ? -EINVAL : 0;
	case 'a':
		sim->patience_sec = (int)strtol(value, &end, 10);
		return *end || !*value || sim->patience_sec < 0 ? -EINVAL : 0;
	case 'd':
		sim->memfd_dmabuf = true;
		return 0;
	case 'o':
		sim->log = fopen(value, "ae");
		return sim->log ? 0 : -errno;
	case 't':
		sim->trace = fopen(value, "ae");
		return sim->trace ? 0 : -errno;
	}
	return -EINVAL;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"nics", required_argument, NULL, 'n'},
		{"link", required_argument, NULL, 'l'},
		{"atomics", required_argument, NULL, 'm'},
		{"atomics-apart", no_argument, NULL, 'c'},
		{"fatal-after", required_argument, NULL, 'f'},
		{"port-down", required_argument, NULL, 'p'},
		{"fw-latency", required_argument, NULL, 'w'},
		{"patience", required_argument, NULL, 'a'},
		{"memfd-dmabuf", no_argument, NULL, 'd'},
		{"log", required_argument, NULL, 'o'},
		{"trace", required_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static struct sim sim = {.lock = PTHREAD_MUTEX_INITIALIZER,
				 .wake = PTHREAD_COND_INITIALIZER};
	int option, r;

	sim.n_nics = 1;
	sim.patience_sec = 30;
	sim.ethernet = true;
	sim.log = stderr;
	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return 0;
		}
		r = take_option(&sim, option, optarg);
		if (r < 0) {
			fprintf(stderr, "mlx5sim: bad option; see --help\n");
			return 2;
		}
	}
	if (optind == argc) {
		fputs(help, stderr);
		return 2;
	}
	r = sim_run(&sim, argv + optind);
	if (sim.root[0])
		nftw(sim.root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return r;
}

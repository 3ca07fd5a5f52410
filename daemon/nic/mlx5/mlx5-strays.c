/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the objects that a context has in the kernel. A process that is killed in the middle of a request leaves objects that no
 * record names, or has destroyed some that the last record names. The kernel's own list shows which.
 *
 * A handle is free for the next object as soon as its own is destroyed. Between two records one request is carried out,
 * which makes objects or destroys some and never both but for its own, so a handle of the older record is that object's or none's.
 *
 * The kernel does not say which process made an object. Strays are all objects of these kinds that no record names: also what a
 * client made by its duplicate of the command descriptor. Regions and umems pin memory of a client: a mapper destroys them.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/cleanup.h"

/* Objects that others use come after those. Events of a context end with their channel. */
static const enum mlx5_object_kind order[] = {MLX5_OBJECT_DEVX, MLX5_OBJECT_UMEM, MLX5_OBJECT_MR,
					      MLX5_OBJECT_AH,   MLX5_OBJECT_UAR,  MLX5_OBJECT_PD};

#define N_ORDER (sizeof(order) / sizeof(order[0]))

static int compare(const void *a, const void *b)
{
	const struct mlx5_handle *x = a, *y = b;

	return x->handle < y->handle ? -1 : x->handle > y->handle;
}

static int list_kind(struct mlx5_present *present, enum mlx5_object_kind kind, int command_fd, uint32_t *room)
{
	struct mlx5_handle *at;
	uint32_t n;
	int r = mlx5_handles_list(command_fd, kind, room, MLX5_HANDLES_MAX, &n);

	if (r < 0)
		return r;
	at = calloc((size_t)n + 1, sizeof(*at));
	if (!at)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		at[i].handle = room[i];
	qsort(at, n, sizeof(*at), compare);
	present->of[kind].at = at;
	present->of[kind].n = n;
	return 0;
}

int mlx5_present_list(struct mlx5_present *present, int command_fd)
{
	_cleanup_free_ uint32_t *room = calloc(MLX5_HANDLES_MAX, sizeof(*room));
	int r = room ? 0 : -ENOMEM;

	*present = (struct mlx5_present){0};
	for (size_t i = 0; r == 0 && i < N_ORDER; i++)
		r = list_kind(present, order[i], command_fd, room);
	return r;
}

void mlx5_present_deinit(struct mlx5_present *present)
{
	for (size_t i = 0; i < MLX5_OBJECT_KINDS; i++)
		free(present->of[i].at);
	*present = (struct mlx5_present){0};
}

bool mlx5_present_name(struct mlx5_present *present, enum mlx5_object_kind kind, uint32_t handle)
{
	const struct mlx5_handle key = {.handle = handle};
	struct mlx5_handle *found = NULL;
	uint32_t n = present->of[kind].n;

	if (n)
		found = bsearch(&key, present->of[kind].at, n, sizeof(key), compare);
	if (found)
		found->named = true;
	return found || n == MLX5_HANDLES_MAX;
}

void mlx5_present_unname(struct mlx5_present *present)
{
	for (size_t kind = 0; kind < MLX5_OBJECT_KINDS; kind++)
		for (uint32_t i = 0; i < present->of[kind].n; i++)
			present->of[kind].at[i].named = false;
}

/* ---- their end --------------------------------------------------------------------------------------------------------- */

#define TRIES 3u /* mappers that die at one object */

struct strays {
	struct mlx5_present *present;
	const struct mlx5_strays_attr *attr;
	struct mapper *mapper; /* reference; NULL: not needed yet, or none */
	uint64_t ctx; /* in that mapper */
	bool has_none; /* none can be started, or takes the context */
};

static int enter_mapper(struct strays *strays)
{
	const struct mapper_request request = {.op = MAPPER_CTX_ADD};
	const struct mapper_fds fds = {.n = 1, .fds = {strays->attr->command_fd}};
	struct mapper_answer answer;
	int r = mapper_get(strays->attr->mappers, strays->attr->uid, false, &strays->mapper);

	if (r < 0) {
		strays->mapper = NULL;
		strays->has_none = true;
		return r;
	}
	r = mapper_call(strays->mapper, &request, &fds, &answer);
	if (r == 0)
		strays->ctx = answer.id;
	else
		mapper_put(take_ptr(strays->mapper));
	/* The next one may do better than one that has died; this one has no memory or no descriptor for the context. */
	strays->has_none = r < 0 && r != -EPIPE;
	return r;
}

static void leave_mapper(struct strays *strays)
{
	const struct mapper_request request = {.op = MAPPER_CTX_REMOVE, .ctx = strays->ctx};
	struct mapper_answer answer;

	if (!strays->mapper)
		return;
	mapper_call(strays->mapper, &request, NULL, &answer);
	mapper_put(strays->mapper);
}

/* -EPIPE: the mapper has died. */
static int ask_mapper(struct strays *strays, struct mapper_request *request)
{
	struct mapper_answer answer;
	int r = strays->mapper ? 0 : enter_mapper(strays);

	if (r < 0)
		return r;
	request->ctx = strays->ctx;
	r = mapper_call(strays->mapper, request, NULL, &answer);
	if (r == -EPIPE)
		mapper_put(take_ptr(strays->mapper));
	return r;
}

/*
 * Unpins memory of a client, which takes as long as that client likes. If a mapper dies, another one goes on. Without any it is done
 * here: keys must end.
 */
static int destroy_pinned(struct strays *strays, enum mlx5_object_kind kind, uint32_t handle)
{
	struct mapper_request request = {.op = MAPPER_DESTROY, .kind = kind, .handle = handle};
	int r = -EPIPE;

	for (unsigned int i = 0; i < TRIES && r == -EPIPE && !strays->has_none; i++)
		r = ask_mapper(strays, &request);
	return r == -EPIPE || strays->has_none ? mlx5_handle_destroy(strays->attr->command_fd, kind, handle) : r;
}

static int destroy(struct strays *strays, enum mlx5_object_kind kind, uint32_t handle)
{
	return kind == MLX5_OBJECT_MR || kind == MLX5_OBJECT_UMEM ? destroy_pinned(strays, kind, handle)
								  : mlx5_handle_destroy(strays->attr->command_fd, kind, handle);
}

/* QPs use CQs, and both are of one kind: from the highest handle down, which is mostly the newest, and again until nothing more goes. */
static void destroy_kind(struct strays *strays, enum mlx5_object_kind kind)
{
	bool more = true;

	while (more) {
		more = false;
		for (uint32_t i = strays->present->of[kind].n; i > 0; i--) {
			struct mlx5_handle *handle = &strays->present->of[kind].at[i - 1];

			if (handle->named || destroy(strays, kind, handle->handle))
				continue;
			handle->named = true;
			more = true;
		}
	}
}

void mlx5_strays_destroy(struct mlx5_present *present, const struct mlx5_strays_attr *attr)
{
	struct strays strays = {.present = present, .attr = attr};

	for (size_t i = 0; i < N_ORDER; i++)
		destroy_kind(&strays, order[i]);
	leave_mapper(&strays);
}

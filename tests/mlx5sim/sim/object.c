/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of a ufile and their handles. The thread of the ufile. */
#include <errno.h>

#include "tests/mlx5sim/sim/fw.h"

static uint64_t *count_of(const struct ufile *ufile)
{
	return &ufile->sim->n_objects[ufile->nic->index];
}

int object_add(struct ufile *ufile, struct object *object, enum object_type type,
	       void (*free)(struct object *))
{
	int r;

	object->type = type;
	object->ufile = ufile;
	object->free = free;
	/* As a kernel does: what was destroyed leaves its handle to the next. */
	while (hash_get(&ufile->handles, ufile->free_handle))
		ufile->free_handle++;
	object->handle = ufile->free_handle;
	r = hash_add(&ufile->handles, object->handle, object);
	if (r < 0)
		return r;
	list_add_head(&ufile->objects, &object->link);
	list_init(&object->subscriptions);
	__atomic_add_fetch(count_of(ufile), 1, __ATOMIC_RELAXED);
	return 0;
}

struct object *object_any(struct ufile *ufile, uint64_t handle)
{
	return hash_get(&ufile->handles, handle);
}

static uint64_t name_of(uint16_t opcode, uint32_t number)
{
	return (uint64_t)opcode << 32 | number;
}

int object_name(struct object *object, uint16_t opcode, uint32_t number)
{
	int r = hash_add(&object->ufile->names, name_of(opcode, number), object);

	if (r < 0)
		return r;
	object->opcode = opcode;
	object->number = number;
	return 0;
}

struct object *object_named(struct ufile *ufile, uint16_t opcode, uint32_t number)
{
	return hash_get(&ufile->names, name_of(opcode, number));
}

struct object *object_get(struct ufile *ufile, enum object_type type, uint64_t handle)
{
	struct object *object = hash_get(&ufile->handles, handle);

	return object && object->type == type ? object : NULL;
}

int object_destroy(struct object *object)
{
	uint64_t *count;

	if (object->users)
		return -EBUSY;
	hash_remove(&object->ufile->handles, object->handle);
	if (object->handle < object->ufile->free_handle)
		object->ufile->free_handle = object->handle;
	if (object->opcode)
		hash_remove(&object->ufile->names, name_of(object->opcode, object->number));
	event_forget(object->ufile->sim, &object->subscriptions);
	list_del(&object->link);
	count = count_of(object->ufile);
	object->free(object);
	__atomic_sub_fetch(count, 1, __ATOMIC_RELAXED);
	return 0;
}

/* Newest first, and again until nothing is left: an object made later may be used by an older one. */
static void free_objects(struct ufile *ufile, bool channels)
{
	bool left = true;

	while (left) {
		struct object *object, *next;

		left = false;
		list_for_each_entry_safe(object, next, &ufile->objects, link)
		{
			if (object->type == OBJECT_CHANNEL && !channels)
				continue;
			if (object->opcode && !object->users)
				fw_wait(ufile);
			left |= object_destroy(object) < 0;
		}
	}
}

void objects_free_all(struct ufile *ufile)
{
	free_objects(ufile, true);
}

void objects_free_but_channels(struct ufile *ufile)
{
	free_objects(ufile, false);
}

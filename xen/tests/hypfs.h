/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As much of hypfs as leaves.h sees, for the model: what it adds is kept, to be read and written at random.
 */
#ifndef STEELYARD_MODEL_HYPFS_H
#define STEELYARD_MODEL_HYPFS_H

typedef void *model_handle_void;
typedef const void *model_handle_const_void;
#define XEN_GUEST_HANDLE_PARAM(type) model_handle_##type
#define copy_to_guest(to, from, size) (memcpy(to, from, size), 0)
#define copy_from_guest(to, from, size) (memcpy(to, from, size), 0)
#define copy_to_guest_offset(to, offset, from, count) (memcpy((to) + (offset), from, (count) * sizeof(*(from))), 0)
#define copy_from_guest_offset(to, from, offset, count) (memcpy(to, (from) + (offset), (count) * sizeof(*(to))), 0)

enum {
	XEN_HYPFS_TYPE_DIR,
	XEN_HYPFS_TYPE_STRING,
	XEN_HYPFS_ENC_PLAIN,
	MODEL_LEAVES = 128
};

struct hypfs_funcs;

struct hypfs_entry {
	int type, encoding;
	const char *name;
	unsigned int max_size;
	const struct hypfs_funcs *funcs;
	struct list_head list;
};

struct hypfs_entry_leaf {
	struct hypfs_entry e;
	union {
		const void *content;
	} u;
};

struct hypfs_funcs {
	const struct hypfs_entry *(*enter)(const struct hypfs_entry *entry);
	void (*exit)(const struct hypfs_entry *entry);
	int (*read)(const struct hypfs_entry *entry, XEN_GUEST_HANDLE_PARAM(void) to);
	int (*write)(struct hypfs_entry_leaf *leaf, XEN_GUEST_HANDLE_PARAM(const_void) from, unsigned int size);
	unsigned int (*getsize)(const struct hypfs_entry *entry);
	void *(*findentry)(const struct hypfs_entry *entry);
};

static struct hypfs_entry_leaf *model_leaves[MODEL_LEAVES];
static unsigned int model_leaf_count;
static struct hypfs_entry hypfs_root;

static inline const struct hypfs_entry *hypfs_node_enter(const struct hypfs_entry *entry)
{
	return entry;
}

static inline void hypfs_node_exit(const struct hypfs_entry *entry)
{
}

static inline int hypfs_write_deny(struct hypfs_entry_leaf *leaf, XEN_GUEST_HANDLE_PARAM(const_void) from,
				   unsigned int size)
{
	return -EACCES;
}

static inline int hypfs_read_leaf(const struct hypfs_entry *entry, XEN_GUEST_HANDLE_PARAM(void) to)
{
	return 0;
}

static inline unsigned int hypfs_getsize(const struct hypfs_entry *entry)
{
	return 0;
}

static inline void *hypfs_leaf_findentry(const struct hypfs_entry *entry)
{
	return NULL;
}

static inline int hypfs_add_leaf(const void *parent, struct hypfs_entry_leaf *leaf, bool nofault)
{
	ASSERT(model_leaf_count < MODEL_LEAVES);
	/* Xen's would be -EINVAL, and a BUG() to who asked for none. */
	ASSERT(leaf->u.content);
	model_leaves[model_leaf_count++] = leaf;
	return 0;
}

static inline int hypfs_add_dir(const void *parent, void *dir, bool nofault)
{
	return 0;
}

#define HYPFS_DIR_INIT(it, text) struct hypfs_entry it = { .type = XEN_HYPFS_TYPE_DIR, .name = text }
#define HYPFS_STRING_INIT(it, text) struct hypfs_entry_leaf it = { .e.name = text }
#define HYPFS_VARSIZE_INIT(it, kind, text, size, functions) \
	struct hypfs_entry_leaf it = { .e.name = text, .e.max_size = size, .e.funcs = functions }
#define hypfs_string_set_reference(leaf, text) ((leaf)->u.content = (text))
#define __initcall(function) static int (*const model_hypfs_init)(void) = function

#endif

/* The call that creates an item (create.lua). */
#ifndef INVENTORY_PURCHASES_CREATE_H
#define INVENTORY_PURCHASES_CREATE_H

#include "base/redis/async/router.h"
#include "inventory/model/keys.h"

extern const struct redis_script create_script;

enum { CREATE_KEYS = 8, CREATE_TERMS = 6, CREATE_TERMS_SIZE = 160 };

struct create_call {
    int keys, argc;
    const char *argv[SCRIPT_ARGV + CREATE_KEYS + CREATE_TERMS]; /* for router_run() */
    struct sale_keys names;
    char terms[CREATE_TERMS_SIZE];
};

/* The terms as text: create.lua has their order. */
void create_print_terms(char out[CREATE_TERMS_SIZE], const struct inventory_item *item);
void create_call_make(struct create_call *call, const struct router *store, const char *item,
                      const char *terms);

#endif

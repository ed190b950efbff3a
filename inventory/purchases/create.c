#include "inventory/purchases/create.h"

#include <stdio.h>
#include <string.h>

#include "create.lua.h"

const struct redis_script create_script = {create_lua, create_lua_sha1};

void create_print_terms(char out[CREATE_TERMS_SIZE], const struct inventory_item *item) {
    snprintf(out, CREATE_TERMS_SIZE, "%lld %lld %lld %lld %lld %s", (long long)item->initial,
             (long long)item->limit, (long long)item->starts_ms, (long long)item->ends_ms,
             (long long)item->hold_ms, inventory_strategy_name(item->strategy));
}

void create_call_make(struct create_call *call, const struct router *store, const char *item,
                      const char *terms) {
    struct sale_keys *keys = &call->names;
    sale_keys_make(keys, item);
    const char *const all[CREATE_KEYS] = {keys->item,     keys->orders,   keys->users, keys->holds,
                                          keys->restocks, keys->shortage, keys->token, keys->events};
    char *rest = NULL;
    call->keys = router_is_one(store) ? 1 : CREATE_KEYS;
    call->argc = SCRIPT_ARGV;
    memcpy(call->argv + call->argc, all, sizeof all);
    call->argc += call->keys;
    snprintf(call->terms, sizeof call->terms, "%s", terms);
    for (char *term = strtok_r(call->terms, " ", &rest);
         term && call->argc < SCRIPT_ARGV + call->keys + CREATE_TERMS; term = strtok_r(NULL, " ", &rest))
        call->argv[call->argc++] = term;
}

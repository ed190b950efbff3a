/* Scripts that more than one file runs, and the keys of their calls. */
#include <string.h>

#include "create.lua.h"
#include "inventory/purchases/purchases.h"
#include "settle.lua.h"

const struct redis_script create_script = {create_lua, create_lua_sha1};

int create_keys(const struct purchases *purchases, const struct sale_keys *keys, const char **argv) {
    const char *const all[] = {keys->item, keys->holds, keys->due, keys->shortage, keys->token, keys->events};
    int count = router_is_one(purchases->shared->store) ? 1 : (int)(sizeof all / sizeof *all);
    memcpy(argv, all, sizeof *all * (size_t)count);
    return count;
}

const struct redis_script settle_script = {settle_lua, settle_lua_sha1};

int settle_keys(const struct purchases *purchases, const struct sale_keys *keys, const char **argv) {
    argv[0] = keys->item;
    argv[1] = keys->holds;
    argv[2] = keys->due;
    return shared_add_events(purchases->shared, keys, argv, 3);
}

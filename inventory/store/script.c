#include "inventory/store/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "inventory/context.h"

/* A call keeps its arguments until the reply: only then it is known whether the text must be sent. */
struct script_call {
    struct inventory *inventory;
    redis_reply_fn *fn;
    void *ctx;
    const char *text;
    bool by_text;
    char keys[DECIMAL_SIZE]; /* how many */
    int argc;
    const char *argv[]; /* their bytes follow in the same block */
};

static void on_reply(void *ctx, const struct redis_value *value) {
    struct script_call *call = ctx;
    struct inventory *inventory = call->inventory;
    if (value && redis_value_type(value) == REDIS_ERROR && !call->by_text &&
        strncmp(redis_value_text(value), "NOSCRIPT", 8) == 0) {
        call->by_text = true;
        call->argv[0] = "EVAL";
        call->argv[1] = call->text;
        if (redis_call(inventory->redis, on_reply, call, call->argc, call->argv)) {
            metric_add(&inventory->metrics->scripts_loaded, 1);
            redis_flush(inventory->redis);
            return;
        }
    }
    redis_reply_fn *fn = call->fn;
    void *fn_ctx = call->ctx;
    free(call);
    fn(fn_ctx, value);
}

bool script_call(struct inventory *inventory, const struct script *script, int keys, int argc,
                 const char **argv, redis_reply_fn *fn, void *ctx) {
    size_t bytes = 0;
    for (int i = SCRIPT_ARGV; i < argc; i++)
        bytes += strlen(argv[i]) + 1;
    struct script_call *call = malloc(sizeof *call + sizeof(char *) * (size_t)argc + bytes);
    if (!call)
        return false;
    *call = (struct script_call){
        .inventory = inventory, .fn = fn, .ctx = ctx, .text = script->text, .argc = argc};
    call->argv[0] = "EVALSHA";
    call->argv[1] = script->sha;
    decimal_append(call->keys, (uint64_t)keys);
    call->argv[2] = call->keys;
    char *copy = (char *)&call->argv[argc];
    for (int i = SCRIPT_ARGV; i < argc; i++) {
        size_t length = strlen(argv[i]) + 1;
        call->argv[i] = memcpy(copy, argv[i], length);
        copy += length;
    }
    if (redis_call(inventory->redis, on_reply, call, argc, call->argv))
        return true;
    free(call);
    return false;
}

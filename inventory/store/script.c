#include "inventory/store/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "inventory/context.h"

/* A call keeps its command until the reply: only then it is known whether the text must be sent. */
struct script_call {
    struct inventory *inventory;
    const struct script *script;
    redis_reply_fn *fn;
    void *ctx;
    struct redis_command command;
    bool by_text;
};

static void on_reply(void *ctx, const struct redis_value *value) {
    struct script_call *call = ctx;
    if (value && redis_value_type(value) == REDIS_ERROR && !call->by_text &&
        strncmp(redis_value_text(value), "NOSCRIPT", 8) == 0) {
        struct redis_command evalsha = call->command;
        call->command = redis_command_eval(&evalsha, call->script->text);
        call->by_text = true;
        redis_command_free(&evalsha);
        metric_add(&call->inventory->metrics->scripts_loaded, 1);
        redis_send(call->inventory->redis, on_reply, call, &call->command);
        return;
    }
    redis_reply_fn *fn = call->fn;
    void *fn_ctx = call->ctx;
    redis_command_free(&call->command);
    free(call);
    fn(fn_ctx, value);
}

static void start(struct inventory *inventory, const struct script *script, struct redis_command *command,
                  redis_reply_fn *fn, void *ctx) {
    struct script_call *call = malloc(sizeof *call);
    if (!call) {
        redis_command_free(command);
        fn(ctx, redis_unsent);
        return;
    }
    *call = (struct script_call){
        .inventory = inventory, .script = script, .fn = fn, .ctx = ctx, .command = *command};
    redis_send(inventory->redis, on_reply, call, &call->command);
}

void script_call(struct inventory *inventory, const struct script *script, int keys, int argc,
                 const char **argv, redis_reply_fn *fn, void *ctx) {
    char number[DECIMAL_SIZE];
    decimal_append(number, (uint64_t)keys);
    argv[0] = "EVALSHA";
    argv[1] = script->sha;
    argv[2] = number;
    struct redis_command command = redis_command_make(argc, argv);
    start(inventory, script, &command, fn, ctx);
}

void script_callf(struct inventory *inventory, const struct script *script, redis_reply_fn *fn, void *ctx,
                  const char *format, ...) {
    char head[64];
    va_list list;
    snprintf(head, sizeof head, "EVALSHA %s ", script->sha);
    va_start(list, format);
    struct redis_command command = redis_command_print(head, format, list);
    va_end(list);
    start(inventory, script, &command, fn, ctx);
}

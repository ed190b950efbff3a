#include "inventory/store/script.h"

#include <stdio.h>

#include "base/decimal.h"

void script_call(struct store *store, const struct script *script, int keys, int argc, const char **argv,
                 redis_reply_fn *fn, void *ctx) {
    char number[DECIMAL_SIZE];
    decimal_append(number, (uint64_t)keys);
    argv[0] = "EVALSHA";
    argv[1] = script->sha;
    argv[2] = number;
    struct redis_command command = redis_command_make(argc, argv);
    store_run(store, script, &command, fn, ctx);
}

void script_callf(struct store *store, const struct script *script, redis_reply_fn *fn, void *ctx,
                  const char *format, ...) {
    char head[64];
    va_list list;
    snprintf(head, sizeof head, "EVALSHA %s ", script->sha);
    va_start(list, format);
    struct redis_command command = redis_command_print(head, format, list);
    va_end(list);
    store_run(store, script, &command, fn, ctx);
}

/* Replies and commands, as hiredis has them. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/store/redis.h"

/* A redis_value is a redisReply. It is declared so that users of redis.h need not include hiredis. */
struct redis_value {
    redisReply reply;
};

static const struct redis_value unsent = {{.type = REDIS_REPLY_ERROR, .str = (char *)"not sent"}};
const struct redis_value *const redis_unsent = &unsent;

enum redis_type redis_value_type(const struct redis_value *value) {
    switch (value->reply.type) {
    case REDIS_REPLY_INTEGER: return REDIS_INTEGER;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS: return REDIS_STRING;
    case REDIS_REPLY_ARRAY: return REDIS_ARRAY;
    case REDIS_REPLY_NIL: return REDIS_NIL;
    default: return REDIS_ERROR;
    }
}

int64_t redis_value_integer(const struct redis_value *value, int64_t otherwise) {
    if (value->reply.type == REDIS_REPLY_INTEGER)
        return value->reply.integer;
    if (value->reply.type != REDIS_REPLY_STRING)
        return otherwise;
    char *end;
    long long number = strtoll(value->reply.str, &end, 10);
    return *end == '\0' && end != value->reply.str ? number : otherwise;
}

const char *redis_value_text(const struct redis_value *value) {
    int type = value->reply.type;
    return type == REDIS_REPLY_STRING || type == REDIS_REPLY_STATUS || type == REDIS_REPLY_ERROR
               ? value->reply.str
               : NULL;
}

size_t redis_value_count(const struct redis_value *value) {
    return value->reply.type == REDIS_REPLY_ARRAY ? value->reply.elements : 0;
}

const struct redis_value *redis_value_at(const struct redis_value *value, size_t i) {
    return (const struct redis_value *)value->reply.element[i];
}

const redisReply *redis_value_reply(const struct redis_value *value) {
    return &value->reply;
}

void redis_value_free(struct redis_value *copy) {
    if (!copy)
        return;
    for (size_t i = 0; i < copy->reply.elements; i++)
        redis_value_free((struct redis_value *)copy->reply.element[i]);
    free(copy->reply.element);
    free(copy->reply.str);
    free(copy);
}

struct redis_value *redis_value_copy(const struct redis_value *value) {
    const redisReply *from = &value->reply;
    struct redis_value *copy = calloc(1, sizeof *copy);
    if (!copy)
        return NULL;
    copy->reply.type = from->type;
    copy->reply.integer = from->integer;
    if (from->str) {
        if (!(copy->reply.str = malloc(from->len + 1)))
            goto fail;
        memcpy(copy->reply.str, from->str, from->len + 1); /* hiredis ends each text in NUL */
        copy->reply.len = from->len;
    }
    if (from->elements && !(copy->reply.element = calloc(from->elements, sizeof(redisReply *))))
        goto fail;
    for (; copy->reply.elements < from->elements; copy->reply.elements++) {
        size_t i = copy->reply.elements;
        if (!(copy->reply.element[i] = (redisReply *)redis_value_copy(redis_value_at(value, i))))
            goto fail;
    }
    return copy;
fail:
    redis_value_free(copy);
    return NULL;
}

struct redis_command redis_command_make(int argc, const char **argv) {
    sds text = NULL;
    /* An int in hiredis 0.14, a long long since 1.0. */
    long long length = redisFormatSdsCommandArgv(&text, argc, argv, NULL);
    return (struct redis_command){length < 0 ? NULL : text, (size_t)length, redisFreeSdsCommand};
}

struct redis_command redis_command_print(const char *head, const char *format, va_list list) {
    char *text = NULL, full[512];
    snprintf(full, sizeof full, "%s%s", head, format);
    int length = redisvFormatCommand(&text, full, list);
    return (struct redis_command){length < 0 ? NULL : text, (size_t)length, redisFreeCommand};
}

struct redis_command redis_command_eval(const struct redis_command *evalsha, const char *script) {
    /* *COUNT $7 EVALSHA $40 DIGEST and the rest, with CR LF after each */
    const char *end = strchr(evalsha->text, '\r');
    const char *rest = end + strlen("\r\n$7\r\nEVALSHA\r\n$40\r\n") + 40;
    size_t left = evalsha->length - (size_t)(rest - evalsha->text), size = strlen(script) + left + 64;
    char *text = malloc(size);
    if (!text)
        return (struct redis_command){.text = NULL};
    int length = snprintf(text, size, "%.*s\r\n$4\r\nEVAL\r\n$%zu\r\n%s", (int)(end - evalsha->text),
                          evalsha->text, strlen(script), script);
    memcpy(text + length, rest, left);
    return (struct redis_command){text, (size_t)length + left, redisFreeCommand};
}

/* The text is *COUNT CRLF, and for each argument $LENGTH CRLF BYTES CRLF. */
const char *redis_command_key(const struct redis_command *command, size_t *length) {
    const char *at = strchr(command->text, '$');
    bool evalsha = strncmp(at, "$7\r\nEVALSHA\r", 12) == 0;
    for (int i = 0; i < (evalsha ? 3 : 1); i++) {
        char *bytes;
        size_t size = strtoul(at + 1, &bytes, 10);
        at = bytes + 2 + size + 2;
    }
    char *key;
    *length = strtoul(at + 1, &key, 10);
    return key + 2;
}

void redis_command_free(struct redis_command *command) {
    if (command->text)
        command->free(command->text);
    command->text = NULL;
}

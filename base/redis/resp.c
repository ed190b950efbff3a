#include "base/redis/resp.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"

/* ---- commands ---- */

enum { PART_SIZE = DECIMAL_SIZE + 4 }; /* a mark, digits, and two line ends */

/* Writes the mark, a number, and a line end. */
static char *put_number(char *at, char mark, size_t number) {
    *at++ = mark;
    return mempcpy(decimal_append(at, number), "\r\n", 2);
}

size_t redis_command_size(int argc, const char *const argv[]) {
    size_t size = PART_SIZE;
    for (int i = 0; i < argc; i++)
        size += PART_SIZE + strlen(argv[i]);
    return size;
}

size_t redis_command_begin(char *out, int argc) {
    return (size_t)(put_number(out, '*', (size_t)argc) - out);
}

/* hiredis would format it with printf() and a copy, which costs more than all else that is done for a call.
 */
size_t redis_command_add(char *out, int count, const char *const argv[]) {
    char *at = out;
    for (int i = 0; i < count; i++) {
        size_t length = strlen(argv[i]);
        at = put_number(at, '$', length);
        at = mempcpy(at, argv[i], length);
        at = mempcpy(at, "\r\n", 2);
    }
    return (size_t)(at - out);
}

size_t redis_command_write(char *out, int argc, const char *const argv[]) {
    size_t begun = redis_command_begin(out, argc);
    return begun + redis_command_add(out + begun, argc, argv);
}

size_t redis_output_append(struct redis_output *output, int argc, const char *const argv[]) {
    size_t most = output->length + redis_command_size(argc, argv);
    if (most > output->size) {
        char *bytes = realloc(output->bytes, 2 * most);
        if (!bytes)
            return 0;
        output->bytes = bytes;
        output->size = 2 * most;
    }
    size_t length = redis_command_write(output->bytes + output->length, argc, argv);
    output->length += length;
    return length;
}

/* ---- replies ---- */

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

size_t redis_value_length(const struct redis_value *value) {
    return redis_value_text(value) ? (size_t)value->reply.len : 0;
}

const char *redis_value_error(const struct redis_value *value) {
    return value && redis_value_type(value) == REDIS_ERROR ? redis_value_text(value) : NULL;
}

size_t redis_value_count(const struct redis_value *value) {
    return value->reply.type == REDIS_REPLY_ARRAY ? value->reply.elements : 0;
}

const struct redis_value *redis_value_at(const struct redis_value *value, size_t i) {
    return (const struct redis_value *)value->reply.element[i];
}

const char *redis_value_find(const struct redis_value *list, const char *name) {
    for (size_t i = 0; i + 1 < redis_value_count(list); i += 2) {
        const char *text = redis_value_text(redis_value_at(list, i));
        const char *value = redis_value_text(redis_value_at(list, i + 1));
        if (text && value && strcmp(text, name) == 0)
            return value;
    }
    return "";
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

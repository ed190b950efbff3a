/* A reply of Redis, for code that need not know hiredis. Pure; what it reads may be garbage. */
#ifndef BASE_REDIS_REPLY_H
#define BASE_REDIS_REPLY_H

#include <stddef.h>
#include <stdint.h>

/* Valid only as long as its driver says, mostly within a callback. */
struct redis_value;
enum redis_type { REDIS_NIL, REDIS_INTEGER, REDIS_STRING, REDIS_ARRAY, REDIS_ERROR };

enum redis_type redis_value_type(const struct redis_value *value);
/* The integer, or the number in the string; `otherwise` where it is neither. */
int64_t redis_value_integer(const struct redis_value *value, int64_t otherwise);
/* The text of a string, status or error (ends in NUL), else NULL. */
const char *redis_value_text(const struct redis_value *value);
/* The length of that text, which may have a NUL in it; 0 where there is none. */
size_t redis_value_length(const struct redis_value *value);
/* The text of an error; NULL: `value` is NULL, or no error. */
const char *redis_value_error(const struct redis_value *value);
/* How many elements an array has; 0: none, or it is no array. */
size_t redis_value_count(const struct redis_value *value);
/* The i-th element; i is below redis_value_count(). */
const struct redis_value *redis_value_at(const struct redis_value *value, size_t i);
/* Of an array of names and values, the value of a name; "": there is none. */
const char *redis_value_find(const struct redis_value *list, const char *name);

/* hiredis's reply is a value. */
struct redisReply;
static inline const struct redis_value *redis_value_of(const struct redisReply *reply) {
    return (const struct redis_value *)reply;
}

/* NULL when out of memory. */
struct redis_value *redis_value_copy(const struct redis_value *value);
/* Frees a copy; NULL is fine. */
void redis_value_free(struct redis_value *copy);

/* An error: the answer to a call that was not sent. */
extern const struct redis_value *const redis_unsent;

#endif

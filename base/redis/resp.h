/* RESP, the protocol of Redis: a command is written, and a reply is read. Pure; a reply may be garbage. */
#ifndef BASE_REDIS_RESP_H
#define BASE_REDIS_RESP_H

#include <stddef.h>
#include <stdint.h>

/* ---- commands: arrays of bulk strings ---- */

/* A Lua script, and its SHA-1 in hex, by which servers know it (EVALSHA). */
struct redis_script {
    const char *text, *sha1;
};

/* How many bytes the command takes at most. */
size_t redis_command_size(int argc, const char *const argv[]);
/* Writes the command, without a NUL, and returns its length. */
size_t redis_command_write(char *out, int argc, const char *const argv[]);
/* The same in parts: that it has `argc` arguments; and some of them, as often as necessary. */
size_t redis_command_begin(char *out, int argc);
size_t redis_command_add(char *out, int count, const char *const argv[]);

/* Commands one after the other; all 0 at first. `bytes` is freed by free(). */
struct redis_output {
    char *bytes;
    size_t length, size;
};

/* Returns the command's length; 0: out of memory. */
size_t redis_output_append(struct redis_output *output, int argc, const char *const argv[]);

/* ---- replies, for code that need not know hiredis ---- */

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

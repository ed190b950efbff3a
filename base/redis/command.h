/* Commands as the Redis protocol (RESP) has them: an array of bulk strings. Pure. */
#ifndef BASE_REDIS_COMMAND_H
#define BASE_REDIS_COMMAND_H

#include <stddef.h>

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

#endif

/* The command line of a program, from a table of its flags: --name VALUE, --name=VALUE, --name alone, and
 * operands, in any order. (config.c of seckilld reads more than flags, and has a table of its own.) */
#ifndef BASE_FLAGS_H
#define BASE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flag {
    const char *name; /* with --; without: it stands for the operands */
    /* Reads `text` into `value`; false: it is wrong. */
    bool (*read)(const struct flag *flag, const char *text, void *value);
    size_t offset; /* of the value in the program's options */
    double min, max;
    const char *must; /* what the text must be; NULL: a number from min to max */
};

/* Whole numbers of 32 and of 64 bits, from min to max. */
bool flag_read_u32(const struct flag *flag, const char *text, void *value);
bool flag_read_u64(const struct flag *flag, const char *text, void *value);
/* A double: digits with at most one point, from min to max. */
bool flag_read_decimal(const struct flag *flag, const char *text, void *value);
/* A const char *, which points to `text`; of at least one character. */
bool flag_read_text(const struct flag *flag, const char *text, void *value);
/* A bool, which becomes true: the flag has no value. */
bool flag_read_switch(const struct flag *flag, const char *text, void *value);

/* Several texts: the flag may be repeated. */
enum { FLAG_TEXTS = 32 };
struct flag_texts {
    const char *texts[FLAG_TEXTS];
    unsigned count;
};
#define FLAG_TEXTS_MUST "given at most 32 times"
bool flag_read_texts(const struct flag *flag, const char *text, void *value);

enum flags_status { FLAGS_RUN, FLAGS_HELP, FLAGS_VERSION, FLAGS_WRONG };

/* Reads argv[1] and on, up to its NULL, into `options`, which has the defaults; texts point into argv.
 * FLAGS_WRONG: `error` says what is wrong, and what would be right. */
enum flags_status flags_read(const struct flag *flags, size_t count, char *const *argv, void *options,
                             char *error, size_t error_size);

/* Answers --help and --version on standard output, and an error on standard error. Returns the exit status of
 * the program: 0, or 2. */
int flags_answer(enum flags_status status, const char *program, const char *help, const char *error);

#endif

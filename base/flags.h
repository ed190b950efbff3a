/* Reads the command line of a program by a table of its flags: --name VALUE, --name=VALUE, --name alone, and
 * operands, in any order. (seckilld has a table of its own, since it also reads a file and the environment.)
 */
#ifndef BASE_FLAGS_H
#define BASE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flag {
    const char *name; /* with its --; a name without -- stands for the operands */
    /* Reads `text` into `value`; false: the text is wrong. One of the functions below, or the program's own.
     */
    bool (*read)(const struct flag *flag, const char *text, void *value);
    size_t offset; /* of the value, in the program's options */
    double min, max;
    const char *must; /* for the error: "--name must be ..."; NULL: a number from min to max */
};

/* Whole numbers of 32 and of 64 bits, from min to max. */
bool flag_read_u32(const struct flag *flag, const char *text, void *value);
bool flag_read_u64(const struct flag *flag, const char *text, void *value);
/* A double from min to max: digits with at most one point. */
bool flag_read_decimal(const struct flag *flag, const char *text, void *value);
/* A const char * of at least one character; it points to `text`. */
bool flag_read_text(const struct flag *flag, const char *text, void *value);
/* A bool, which becomes true: the flag stands alone. */
bool flag_read_switch(const struct flag *flag, const char *text, void *value);

/* A struct flag_texts: the flag may be repeated. */
enum { FLAG_TEXTS = 32 };
struct flag_texts {
    const char *texts[FLAG_TEXTS];
    unsigned count;
};
#define FLAG_TEXTS_MUST "given at most 32 times"
bool flag_read_texts(const struct flag *flag, const char *text, void *value);

enum flags_status { FLAGS_RUN, FLAGS_HELP, FLAGS_VERSION, FLAGS_WRONG };

/* Reads argv from argv[1] up to its NULL. `options` has the defaults before; its texts point into argv after.
 * If the status is FLAGS_WRONG, `error` says what is wrong, and what would be right. */
enum flags_status flags_read(const struct flag *flags, size_t count, char *const *argv, void *options,
                             char *error, size_t error_size);

/* For any status but FLAGS_RUN: prints the answer to --help or --version on standard output, or the error on
 * standard error. Returns the exit status of the program: 0, or 2 after an error. */
int flags_answer(enum flags_status status, const char *program, const char *help, const char *error);

#endif

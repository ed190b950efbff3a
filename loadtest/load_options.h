/* The command line of seckill-load: its flags, their defaults and limits, and --help. */
#ifndef LOADTEST_LOAD_OPTIONS_H
#define LOADTEST_LOAD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/flags.h"

#define OPTIONS_ITEM  64  /* characters of an item name */
#define OPTIONS_TOKEN 512 /* of a token */
#define OPTIONS_LINES 32  /* of a basket */

/* Texts point into argv and the environment. */
struct options {
    struct flag_texts urls;
    const char *item;
    unsigned items;        /* 0: only `item`; otherwise ITEM-0 to ITEM-(items - 1) */
    double zipf;           /* 0: all items are equally likely */
    unsigned basket_lines; /* 0: purchases, not baskets */
    unsigned purchases;    /* percent of the requests, beside baskets */
    unsigned transfers;    /* percent */
    uint32_t users;
    unsigned quantity;
    unsigned connections;
    uint64_t requests; /* 0: as many as `duration_ns` allows */
    uint64_t duration_ns;
    bool retries;
    unsigned duplicates; /* percent */
    const char *token;   /* NULL: none */
    uint64_t seed;
    uint64_t timeout_ns;
    uint64_t settle_ns;   /* the limit for resolving unknown requests, and for audits */
    const char *json;     /* file, "-" for standard output, NULL: none */
    const char *progress; /* file, NULL: none */
};

/* Reads the command line, and SECKILL_ADMIN_TOKEN or SECKILL_ADMIN_TOKEN_FILE from the environment. `seed` is
 * used if the command line has none. If the status is FLAGS_WRONG, `error` says what is wrong. */
enum flags_status options_read(char *const *argv, uint64_t seed, struct options *options, char *error,
                               size_t error_size);

extern const char options_help[];

#endif

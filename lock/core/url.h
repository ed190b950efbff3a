/* Lock URLs: SCHEME:[//ADDRESS][?OPTION&OPTION]. The options are variant=NAME, ttl=MS and renew=on, and for
 * stores that speak TLS ca=FILE, cert=FILE and key=FILE. */
#ifndef LOCK_CORE_URL_H
#define LOCK_CORE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOCK_TTL_MIN_MS = 10, LOCK_TTL_MAX_MS = 24 * 3600 * 1000 };

struct lock_url {
    char scheme[16];
    char address[2048]; /* what stands between // and ?; "" if there is none */
    char variant[32];   /* "": the scheme's default */
    int64_t ttl_ms;     /* 0: not given */
    bool renew;
    char ca_file[256], cert_file[256], key_file[256]; /* "": not given */
};

/* On failure `url` is untouched, and `error` says what is wrong without quoting an address, which may contain
 * a password. */
bool lock_url_parse(struct lock_url *url, const char *text, char *error, size_t error_size);

#endif

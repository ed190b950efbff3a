/* Lock URLs: SCHEME:[//ADDRESS][?variant=NAME&ttl=MS]; for those that speak TLS also ca=, cert= and key=FILE.
 */
#ifndef LOCK_CORE_URL_H
#define LOCK_CORE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOCK_TTL_MIN_MS = 10, LOCK_TTL_MAX_MS = 24 * 3600 * 1000 };

struct lock_url {
    char scheme[16];
    char address[2048]; /* what stands between // and ?; "" where there is none */
    char variant[32];   /* "": the scheme's own */
    int64_t ttl_ms;     /* 0: not named */
    char ca_file[256], cert_file[256], key_file[256]; /* "": not named */
};

/* On failure `url` is untouched, and `error` says what is wrong without quoting an address, which may hold a
 * password. */
bool lock_url_parse(struct lock_url *url, const char *text, char *error, size_t error_size);

#endif

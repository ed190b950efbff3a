#include "base/redis/redirect.h"

#include <stdlib.h>
#include <string.h>

static bool begins(const char *text, const char *word) {
    return strncmp(text, word, strlen(word)) == 0;
}

/* SLOT HOST:PORT; the host may be an IPv6 address, with colons of its own. */
static bool redirect_read(struct redis_redirect *redirect, const char *text, const char *asked) {
    char *end;
    struct redis_redirect read;
    long slot = strtol(text, &end, 10);
    const char *host = *end == ' ' ? end + 1 : "", *colon = strrchr(host, ':');
    long port = colon ? strtol(colon + 1, &end, 10) : 0;
    if (slot < 0 || slot >= REDIS_SLOTS || *end || !colon ||
        !redis_address_read(&read.to, host, (size_t)(colon - host), port, asked))
        return false;
    read.slot = (int)slot;
    if (redirect)
        *redirect = read;
    return true;
}

enum redis_meaning redis_error_read(const char *error, const char *asked, struct redis_redirect *redirect) {
    bool moved = begins(error, "MOVED ");
    if (moved || begins(error, "ASK ")) {
        if (!redirect_read(redirect, error + (moved ? 6 : 4), asked))
            return REDIS_REFUSED;
        return moved ? REDIS_MOVED : REDIS_ASK;
    }
    if (begins(error, "NOSCRIPT"))
        return REDIS_NO_SCRIPT;
    if (strstr(error, "READONLY ") || begins(error, "MASTERDOWN"))
        return REDIS_IS_REPLICA;
    if (begins(error, "TRYAGAIN") || begins(error, "CLUSTERDOWN") || begins(error, "LOADING"))
        return REDIS_LATER;
    return REDIS_REFUSED;
}

/* From the header Authorization to a caller; and the files, which may change while threads use them.
 *
 * What was read of a file is immutable, and counted: a view holds one reference on what it uses, and the
 * service one on what is in force. A view compares its pointer with the one in force at each call, which
 * takes no lock, and only if they differ takes the mutex to change its reference. So it never sees half of a
 * file, the first call after a change sees the new one, and what is old is freed by the last view that leaves
 * it. What a view holds cannot be freed, so equal pointers mean that nothing has changed. */
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "service/auth/auth_internal.h"

/* What was read of a file; one of the two. */
struct version {
    int references; /* under the mutex */
    struct tokens *tokens;
    struct ticket_keys *keys;
};

struct source {
    char *path;       /* NULL: there is no such file */
    struct stat seen; /* of the file when it was read last, good or bad; zeros: it was not there */
    _Atomic(struct version *) current;
};

struct auth {
    const struct clock *clock;
    unsigned char admin_digest[TOKEN_DIGEST_SIZE];
    pthread_mutex_t mutex;
    struct source sources[AUTH_SOURCES];
};

/* ---- versions ---- */

static void version_free(struct version *version) {
    if (!version)
        return;
    tokens_free(version->tokens);
    ticket_keys_free(version->keys);
    free(version);
}

/* With the mutex held. */
static void version_release(struct version *version) {
    if (version && --version->references == 0)
        version_free(version);
}

static struct version *version_read(struct source *source, enum auth_source kind, char *error, size_t size) {
    struct credential_file file;
    struct version *version = NULL;
    source->seen = (struct stat){.st_ino = 0};
    if (!credential_file_open(&file, source->path, &source->seen, error, size))
        return NULL;
    version = calloc(1, sizeof *version);
    if (!version) {
        snprintf(error, size, "%.300s: out of memory", source->path);
    } else {
        version->references = 1;
        if (kind == AUTH_TOKENS)
            version->tokens = tokens_read(&file, error, size);
        else
            version->keys = ticket_keys_read(&file, error, size);
        if (!version->tokens && !version->keys) {
            version_free(version);
            version = NULL;
        }
    }
    credential_file_close(&file);
    return version;
}

/* ---- the service's ---- */

struct auth *auth_open(const struct auth_config *config, char *error, size_t size) {
    struct auth *auth = calloc(1, sizeof *auth);
    if (!auth) {
        snprintf(error, size, "out of memory");
        return NULL;
    }
    snprintf(error, size, "out of memory"); /* unless a file has something worse */
    auth->clock = config->clock;
    token_digest(auth->admin_digest, config->admin_token, strlen(config->admin_token));
    pthread_mutex_init(&auth->mutex, NULL);
    for (enum auth_source kind = 0; kind < AUTH_SOURCES; kind++) {
        struct source *source = &auth->sources[kind];
        if (!*config->paths[kind])
            continue;
        source->path = strdup(config->paths[kind]);
        struct version *version = source->path ? version_read(source, kind, error, size) : NULL;
        if (!version) {
            auth_close(auth);
            return NULL;
        }
        atomic_store(&source->current, version);
    }
    return auth;
}

bool auth_has_buyer_keys(const struct auth *auth) {
    return auth->sources[AUTH_BUYER_KEYS].path;
}

static bool stat_is_same(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

enum auth_reload auth_reload(struct auth *auth, enum auth_source kind, char *said, size_t size) {
    struct source *source = &auth->sources[kind];
    struct stat now;
    if (!source->path)
        return AUTH_UNCHANGED;
    if (stat(source->path, &now) != 0)
        now = (struct stat){.st_ino = 0};
    if (stat_is_same(&now, &source->seen))
        return AUTH_UNCHANGED;
    struct version *version = version_read(source, kind, said, size);
    if (!version) {
        if (!source->seen.st_ino) /* it could not be opened */
            source->seen = now;
        return AUTH_REFUSED;
    }
    pthread_mutex_lock(&auth->mutex);
    version_release(atomic_exchange(&source->current, version));
    pthread_mutex_unlock(&auth->mutex);
    auth_describe(auth, kind, said, size);
    return AUTH_RELOADED;
}

void auth_describe(const struct auth *auth, enum auth_source kind, char *out, size_t size) {
    const struct version *version = atomic_load(&auth->sources[kind].current);
    size_t length = version ? (size_t)snprintf(out, size, "%.200s has ", auth->sources[kind].path) : 0;
    out[length] = '\0';
    if (version && version->tokens)
        tokens_describe(version->tokens, out + length, size - length);
    else if (version)
        ticket_keys_describe(version->keys, out + length, size - length);
}

void auth_close(struct auth *auth) {
    if (!auth)
        return;
    for (enum auth_source kind = 0; kind < AUTH_SOURCES; kind++) {
        version_free(atomic_load(&auth->sources[kind].current));
        free(auth->sources[kind].path);
    }
    pthread_mutex_destroy(&auth->mutex);
    free(auth);
}

/* ---- a view, with the tickets that it has verified ----
 * To verify a ticket costs 13 us by HS256 and 0.5 ms by ES256 and RS256, above all to parse it and the key;
 * to find it again takes 1 us. A buyer sends the same ticket with each retry. */

enum {
    KEPT = 1024 /* tickets, a power of two */,
    KEPT_ITEMS = 256 /* a ticket with longer ones is not kept */
};

struct kept {
    unsigned char digest[TOKEN_DIGEST_SIZE];
    int64_t not_before_ms, expires_ms; /* 0: the place is empty */
    bool has_items;
    char user[INVENTORY_USER_MAX + 1];
    char items[KEPT_ITEMS];
};

struct auth_view {
    struct auth *auth;
    struct version *versions[AUTH_SOURCES]; /* with a reference on each; NULL: there is no such file */
    struct ticket ticket;                   /* the last that was verified */
    struct kept *kept;                      /* KEPT of them, each in the place that its digest says */
};

struct auth_view *auth_view_open(struct auth *auth) {
    struct auth_view *view = calloc(1, sizeof *view);
    if (!view)
        return NULL;
    view->auth = auth;
    if (auth_has_buyer_keys(auth) && !(view->kept = calloc(KEPT, sizeof *view->kept))) {
        free(view);
        return NULL;
    }
    return view;
}

void auth_view_close(struct auth_view *view) {
    if (!view)
        return;
    pthread_mutex_lock(&view->auth->mutex);
    for (enum auth_source kind = 0; kind < AUTH_SOURCES; kind++)
        version_release(view->versions[kind]);
    pthread_mutex_unlock(&view->auth->mutex);
    free(view->kept);
    free(view);
}

/* Returns what is in force of the source. Tickets that old keys have verified are forgotten. */
static const struct version *view_current(struct auth_view *view, enum auth_source kind) {
    struct source *source = &view->auth->sources[kind];
    if (atomic_load_explicit(&source->current, memory_order_acquire) == view->versions[kind])
        return view->versions[kind];
    pthread_mutex_lock(&view->auth->mutex);
    version_release(view->versions[kind]);
    view->versions[kind] = atomic_load(&source->current);
    view->versions[kind]->references++;
    pthread_mutex_unlock(&view->auth->mutex);
    if (kind == AUTH_BUYER_KEYS)
        memset(view->kept, 0, KEPT * sizeof *view->kept);
    return view->versions[kind];
}

static void kept_write(struct kept *kept, const unsigned char *digest, const struct ticket *ticket) {
    if (ticket->has_items && ticket->items_length >= sizeof kept->items)
        return;
    memcpy(kept->digest, digest, sizeof kept->digest);
    kept->not_before_ms = ticket->not_before_ms;
    kept->expires_ms = ticket->expires_ms;
    kept->has_items = ticket->has_items;
    memcpy(kept->user, ticket->user, sizeof kept->user);
    if (ticket->has_items)
        memcpy(kept->items, ticket->items, ticket->items_length + 1);
}

static const char *caller_is_buyer(struct caller *caller, const char *user, const char *items) {
    caller->roles = ROLE_BUYER;
    memcpy(caller->user, user, strlen(user) + 1);
    caller->items = items;
    return NULL;
}

static const char *view_identify_buyer(struct auth_view *view, const char *text, size_t length,
                                       const unsigned char *digest, int64_t now_ms, struct caller *caller) {
    const struct version *version = view_current(view, AUTH_BUYER_KEYS);
    char copy[TICKET_MAX + 1];
    if (length > TICKET_MAX)
        return "the ticket is longer than 4096 bytes";
    struct kept *kept = &view->kept[(digest[0] | digest[1] << 8) % KEPT];
    if (kept->expires_ms && memcmp(kept->digest, digest, sizeof kept->digest) == 0) {
        const char *why = ticket_check_time(kept->not_before_ms, kept->expires_ms, now_ms);
        return why ? why : caller_is_buyer(caller, kept->user, kept->has_items ? kept->items : NULL);
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    struct ticket *ticket = &view->ticket;
    const char *why = ticket_verify(version->keys, copy, ticket);
    if (!why)
        why = ticket_check_time(ticket->not_before_ms, ticket->expires_ms, now_ms);
    if (why)
        return why;
    kept_write(kept, digest, ticket);
    return caller_is_buyer(caller, ticket->user, ticket->has_items ? ticket->items : NULL);
}

static bool view_identify_token(struct auth_view *view, const unsigned char *digest, int64_t now_ms,
                                struct caller *caller) {
    if (sodium_memcmp(digest, view->auth->admin_digest, TOKEN_DIGEST_SIZE) == 0) {
        caller->roles = ROLES_ALL;
        memcpy(caller->name, "admin", sizeof "admin");
        return true;
    }
    return view->auth->sources[AUTH_TOKENS].path &&
           tokens_find(view_current(view, AUTH_TOKENS)->tokens, digest, now_ms, caller);
}

/* Whether the text has the two dots of a ticket. A token may have them, too. */
static bool is_like_ticket(const char *text, size_t length) {
    int dots = 0;
    for (size_t i = 0; i < length; i++)
        dots += text[i] == '.';
    return dots == 2;
}

const char *auth_identify(struct auth_view *view, const char *header, size_t length, struct caller *caller) {
    static const char scheme[] = "Bearer ";
    size_t before = sizeof scheme - 1;
    bool buyers = auth_has_buyer_keys(view->auth);
    caller_clear(caller);
    if (!header) {
        caller->roles = buyers ? 0 : ROLE_SHOP;
        return NULL;
    }
    if (length <= before || strncasecmp(header, scheme, before) != 0)
        return "the header Authorization must be Bearer and a token or a ticket";
    header += before;
    length -= before;
    unsigned char digest[TOKEN_DIGEST_SIZE];
    token_digest(digest, header, length);
    int64_t now_ms = clock_wall_ms(view->auth->clock);
    if (view_identify_token(view, digest, now_ms, caller))
        return NULL;
    if (!is_like_ticket(header, length))
        return "the token is not known, or too old";
    return buyers ? view_identify_buyer(view, header, length, digest, now_ms, caller)
                  : "no tickets are taken here: the service has no --buyer-keys";
}

bool caller_may_buy(const struct caller *caller, const char *item) {
    size_t length = strlen(item);
    if (!caller->items)
        return true;
    for (const char *at = caller->items; (at = strstr(at, item)); at++)
        if (at[-1] == '\n' && at[length] == '\n')
            return true;
    return false;
}

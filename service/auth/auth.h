/* Who calls: the credentials of a request, and the roles that they give. Knows no HTTP, and does not log.
 *
 * A credential is what stands behind "Bearer" in the header Authorization: the admin token; a token whose
 * digest is in the file of tokens; or a buyer's ticket, a JSON Web Token that the shop's login has signed
 * with one of the keys in the file of buyer keys. */
#ifndef SERVICE_AUTH_AUTH_H
#define SERVICE_AUTH_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "inventory/inventory.h"

/* What a caller may be; a bit each. */
enum role {
    ROLE_BUYER = 1,
    ROLE_SHOP = 2,
    ROLE_OPS = 4,
    ROLE_READ = 8,
    ROLES_ALL = ROLE_BUYER | ROLE_SHOP | ROLE_OPS | ROLE_READ
};

struct caller {
    unsigned roles;
    char name[INVENTORY_NAME_MAX + 1]; /* of the token, for the log; "": there is none */
    char user[INVENTORY_USER_MAX + 1]; /* of the ticket: the caller is this buyer and nobody else; "": none */
    const char *items; /* of the ticket, see caller_may_buy(). Valid until the view is asked again */
};

/* Nobody, who has no roles. The texts are not cleared as a whole: this is on the way of each purchase. */
static inline void caller_clear(struct caller *caller) {
    caller->roles = 0;
    caller->name[0] = caller->user[0] = '\0';
    caller->items = NULL;
}

/* Whether the caller came without credentials. */
static inline bool caller_is_anonymous(const struct caller *caller) {
    return !caller->name[0] && !caller->user[0];
}

/* Whether the ticket admits to the item. Without a ticket, and without a list in it, every item is. */
bool caller_may_buy(const struct caller *caller, const char *item);

/* ---- for the whole process ---- */

enum auth_source { AUTH_TOKENS, AUTH_BUYER_KEYS, AUTH_SOURCES };

struct auth_config {
    const char *admin_token;         /* has all roles; not kept, only its digest is */
    const char *paths[AUTH_SOURCES]; /* "": no such file */
    const struct clock *clock;       /* by its wall time credentials grow old; must outlive all this */
};

struct auth;

/* Reads both files. NULL on failure, with the place, the reason and what would be right in `error`. */
struct auth *auth_open(const struct auth_config *config, char *error, size_t size);

/* Whether buyers need a ticket. Otherwise a caller without credentials is the shop. */
bool auth_has_buyer_keys(const struct auth *auth);

enum auth_reload { AUTH_UNCHANGED, AUTH_RELOADED, AUTH_REFUSED };

/* Reads the file again if it has changed; blocks for that. Only one thread may call this. RELOADED: `said`
 * tells what is in force now. REFUSED: the file is bad, `said` tells why, and what was in force stays; the
 * next call says UNCHANGED, until the file changes again. */
enum auth_reload auth_reload(struct auth *auth, enum auth_source kind, char *said, size_t size);

/* Prints what is in force of the file: how many, and their names; "" if there is no such file. `size` is 300
 * or more. Not while another thread is in auth_reload(). */
void auth_describe(const struct auth *auth, enum auth_source kind, char *out, size_t size);

/* All views must be closed. NULL is fine. */
void auth_close(struct auth *auth);

/* ---- for each thread that asks ---- */

struct auth_view;

/* NULL: out of memory. */
struct auth_view *auth_view_open(struct auth *auth);
void auth_view_close(struct auth_view *view); /* NULL is fine */

/* Fills in the caller by the value of its header Authorization; `header` NULL: it has none. Takes no lock,
 * unless a file has changed since the last call, and allocates nothing, unless it verifies a ticket: one
 * that is new to this view, was displaced by another one, or lists many items. Returns NULL, or why these
 * credentials are not good: a text that tells nothing of them. */
const char *auth_identify(struct auth_view *view, const char *header, size_t length, struct caller *caller);

#endif

#include "service/test/opened_auth.h"

#include <stdatomic.h>
#include <string.h>

#include "service/rfc3339.h"
#include "service/test/login.h"
#include "test/harness.h"

static _Atomic int64_t now_ms;

static int64_t clock_turned(void *ctx) {
    (void)ctx;
    return atomic_load(&now_ms);
}

const struct clock auth_clock = {.mono_ns = clock_system_mono_ns, .wall_ms = clock_turned};

void auth_turn_to(const char *instant) {
    int64_t ms;
    CHECK(rfc3339_read(instant, &ms));
    atomic_store(&now_ms, ms);
}

struct auth *auth;
struct auth_view *view;

static void close_auth(void *arg) {
    (void)arg;
    auth_view_close(view);
    auth_close(auth);
    view = NULL;
    auth = NULL;
}

void auth_open_files(const char *tokens, const char *keys) {
    char error[512] = "";
    struct auth_config config = {
        "the-admin-token",
        {tokens ? login_write("tokens", tokens) : "", keys ? login_write("keys", keys) : ""},
        &auth_clock};
    auth_turn_to("2030-01-01T00:00:00Z");
    auth = auth_open(&config, error, sizeof error);
    if (!auth)
        FAIL("%s", error);
    view = auth_view_open(auth);
    CHECK(view != NULL);
    harness_defer(close_auth, NULL);
}

struct caller caller;

const char *identify(const char *credential) {
    const char *header = harness_format("Bearer %s", credential);
    return auth_identify(view, header, strlen(header), &caller);
}

void check_caller(const char *credential, unsigned roles, const char *name, const char *user) {
    const char *why = identify(credential);
    if (why)
        FAIL("%.300s: %s", credential, why);
    CHECK_INT(caller.roles, roles);
    CHECK_STR(caller.name, name);
    CHECK_STR(caller.user, user);
}

void check_refused(const char *credential, const char *piece) {
    const char *why = identify(credential);
    if (!why)
        FAIL("%.300s is taken", credential);
    CHECK_HAS(why, piece);
    CHECK_INT(caller.roles, 0);
    CHECK(caller_is_anonymous(&caller));
}

const char *auth_all_keys(void) {
    return harness_format("%sec ES256 ec.pem\n\trsa RS256 %s/rsa.pem\n",
                          login_key_line(LOGIN_KID, LOGIN_SECRET), harness_dir());
}

/* Credentials without a service: the two files, tokens, and tickets of each algorithm. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/auth/auth_internal.h"
#include "service/rfc3339.h"
#include "service/test/login.h"
#include "test/harness.h"

/* ---- a clock that the tests turn ---- */

static _Atomic int64_t now_ms;

static int64_t clock_turned(void *ctx) {
    (void)ctx;
    return atomic_load(&now_ms);
}

static const struct clock turned = {.mono_ns = clock_system_mono_ns, .wall_ms = clock_turned};

static void turn_to(const char *instant) {
    int64_t ms;
    CHECK(rfc3339_read(instant, &ms));
    atomic_store(&now_ms, ms);
}

/* ---- what each test opens ---- */

static struct auth *auth;
static struct auth_view *view;

static void close_auth(void *arg) {
    (void)arg;
    auth_view_close(view);
    auth_close(auth);
    view = NULL;
    auth = NULL;
}

/* The files have these texts; NULL: there is no such file. */
static void open_auth(const char *tokens, const char *keys) {
    char error[512] = "";
    struct auth_config config = {
        "the-admin-token",
        {tokens ? login_write("tokens", tokens) : "", keys ? login_write("keys", keys) : ""},
        &turned};
    turn_to("2030-01-01T00:00:00Z");
    auth = auth_open(&config, error, sizeof error);
    if (!auth)
        FAIL("%s", error);
    view = auth_view_open(auth);
    CHECK(view != NULL);
    harness_defer(close_auth, NULL);
}

static struct caller caller;

static const char *identify(const char *credential) {
    const char *header = harness_format("Bearer %s", credential);
    return auth_identify(view, header, strlen(header), &caller);
}

/* The credential gives these roles and this name or user. */
static void check_caller(const char *credential, unsigned roles, const char *name, const char *user) {
    const char *why = identify(credential);
    if (why)
        FAIL("%.300s: %s", credential, why);
    CHECK_INT(caller.roles, roles);
    CHECK_STR(caller.name, name);
    CHECK_STR(caller.user, user);
}

static void check_refused(const char *credential, const char *piece) {
    const char *why = identify(credential);
    if (!why)
        FAIL("%.300s is taken", credential);
    CHECK_HAS(why, piece);
    CHECK_INT(caller.roles, 0);
    CHECK(caller_is_anonymous(&caller));
}

/* The file is refused with its path, the number of the line, and this. Neither text quotes what is in it. */
static void check_bad_file(const char *text, int line, const char *piece, enum auth_source kind) {
    char error[512] = "";
    const char *path = login_write("bad", text);
    struct auth_config config = {"a", {"", ""}, &turned};
    config.paths[kind] = path;
    struct auth *bad = auth_open(&config, error, sizeof error);
    if (bad)
        FAIL("%s is read", text);
    CHECK_HAS(error, harness_format("%s:%d: ", path, line));
    CHECK_HAS(error, piece);
    CHECK(!strstr(error, "s3cret"));
}

/* ---- tokens ---- */

static void tokens_and_roles(void) {
    open_auth(harness_format("# who may what\n\n  %s\t%s%s%s", login_token_line("web", "shop", "1", ""),
                             login_token_line("ann", "ops", "2", ""),
                             login_token_line("grafana", "read", "3", "\r"),
                             login_token_line("both", "ops", "4", "")),
              NULL);
    check_caller("web-1", ROLE_SHOP, "web", "");
    check_caller("ann-2", ROLE_OPS, "ann", "");
    check_caller("grafana-3", ROLE_READ, "grafana", "");
    check_caller("the-admin-token", ROLES_ALL, "admin", "");
    check_refused("web-2", "not known");
    check_refused("", "must be Bearer");
    check_refused("web-1 ", "not known");
    check_refused("the-admin-toke", "not known");
    check_refused("a.b.c", "no --buyer-keys");
    CHECK(auth_identify(view, "Basic web-1", 11, &caller) != NULL);
    CHECK(auth_identify(view, "web-1", 5, &caller) != NULL);
    CHECK(auth_identify(view, "bearer web-1", 12, &caller) == NULL);
    /* Without keys, who has no credentials is the shop. */
    CHECK(auth_identify(view, NULL, 0, &caller) == NULL);
    CHECK_INT(caller.roles, ROLE_SHOP);
    CHECK(caller_is_anonymous(&caller));
    char said[600];
    auth_describe(auth, AUTH_TOKENS, said, sizeof said);
    CHECK_HAS(said, "/tokens has 4 tokens: web (shop), ann (ops), grafana (read), both (ops)");
}

/* Several lines of one name are how tokens are rotated; several lines of one token give it several roles. */
static void several_lines(void) {
    open_auth(harness_format("%s%s%s%s", login_token_line("web", "shop", "old", " 2030-02-01T00:00:00+01:00"),
                             login_token_line("web", "shop", "new", ""),
                             login_token_line("ann", "ops", "x", ""),
                             login_token_line("ann", "read", "x", " 2030-01-15T00:00:00Z")),
              NULL);
    check_caller("web-old", ROLE_SHOP, "web", "");
    check_caller("web-new", ROLE_SHOP, "web", "");
    check_caller("ann-x", ROLE_OPS | ROLE_READ, "ann", "");
    turn_to("2030-01-31T23:00:00Z");
    check_caller("web-old", ROLE_SHOP, "web", "");
    check_caller("ann-x", ROLE_OPS, "ann", "");
    turn_to("2030-01-31T23:00:00.001Z");
    check_refused("web-old", "too old");
    check_caller("web-new", ROLE_SHOP, "web", "");
}

static void bad_tokens(void) {
    static const struct {
        const char *line, *piece;
    } rows[] = {
        {"web shop", "NAME ROLE SHA256 [NOT-AFTER]"},
        {"s3cret", "NAME ROLE SHA256 [NOT-AFTER]"},
        {"web shop HEX 2030-01-01T00:00:00Z s3cret", "NAME ROLE SHA256 [NOT-AFTER]"},
        {"we:b shop HEX", "NAME must be"},
        {"admin shop HEX", "NAME must be"},
        {"web buyer HEX", "ROLE must be shop, ops or read"},
        {"web all HEX", "ROLE must be shop, ops or read"},
        {"web Shop HEX", "ROLE must be shop, ops or read"},
        {"web shop s3cret", "SHA256 must be 64 hex digits"},
        {"web shop HEX0", "SHA256 must be 64 hex digits"},
        {"web shop HEX00", "SHA256 must be 64 hex digits"},
        {"web shop HEX tomorrow", "NOT-AFTER must be an RFC 3339 time"},
        {"web shop HEX 2030-01-01", "NOT-AFTER must be an RFC 3339 time"},
    };
    const char *good = login_token_line("web", "shop", "1", "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *hex = strstr(rows[i].line, "HEX"), *line = rows[i].line;
        if (hex)
            line = harness_format("%.*s%s%s", (int)(hex - line), line, harness_repeat('a', 64), hex + 3);
        check_bad_file(harness_format("# a comment\n%s%s\n%s", good, line, good), 3, rows[i].piece,
                       AUTH_TOKENS);
    }
    char *many = harness_alloc(1 << 16);
    for (int i = 0; i <= TOKENS_MAX; i++)
        strcat(many, good); /* NOLINT(clang-analyzer-security.insecureAPI.strcpy) */
    check_bad_file(many, TOKENS_MAX + 1, "256 tokens at most", AUTH_TOKENS);
}

static void check_unreadable(const char *path, const char *piece) {
    char error[512] = "";
    struct auth_config config = {"a", {path, ""}, &turned};
    CHECK(auth_open(&config, error, sizeof error) == NULL);
    CHECK_HAS(error, path);
    CHECK_HAS(error, piece);
}

static void files_that_are_refused(void) {
    static const mode_t modes[] = {0640, 0604, 0620, 0601, 0644, 0777};
    const char *path = login_write("open", login_token_line("web", "shop", "1", ""));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        CHECK_INT(chmod(path, modes[i]), 0);
        check_unreadable(path, "chmod 600");
    }
    check_unreadable(harness_format("%s/none", harness_dir()), "No such file");
    check_unreadable(harness_dir(), "is no file");
    const char *fifo = harness_format("%s/fifo", harness_dir());
    CHECK_INT(mkfifo(fifo, 0600), 0);
    check_unreadable(fifo, "is no file");
    check_unreadable(login_write("large", harness_repeat('\n', CREDENTIAL_FILE_MAX + 1)), "too large");
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fwrite("# a\0b\n", 1, 6, file) == 6 && fclose(file) == 0);
    CHECK_INT(chmod(path, 0600), 0);
    check_unreadable(path, "NUL");
}

/* ---- keys ---- */

static const char *all_keys(void) {
    return harness_format("%sec ES256 ec.pem\n\trsa RS256 %s/rsa.pem\n",
                          login_key_line(LOGIN_KID, LOGIN_SECRET), harness_dir());
}

static void bad_keys(void) {
    static const struct {
        const char *line, *piece;
    } rows[] = {
        {"k HS256", "KID HS256 SECRET, or KID ES256|RS256 FILE.pem"},
        {"k HS256 a s3cret", "KID HS256 SECRET, or KID ES256|RS256 FILE.pem"},
        {"k hs256 s3cret", "the algorithm must be HS256, ES256 or RS256"},
        {"k none s3cret", "the algorithm must be HS256, ES256 or RS256"},
        {"k HS512 s3cret", "the algorithm must be HS256, ES256 or RS256"},
        {"k RS512 rsa.pem", "the algorithm must be HS256, ES256 or RS256"},
        {"k HS256 s3cret", "SECRET must be 32 to 512 bytes in base64url"},
        {"k HS256 s3cret+/s3crets3crets3crets3crets3crets3cret", "SECRET must be 32 to 512 bytes"},
        {"k HS256 AAAA\x9e"
         "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
         "SECRET must be 32 to 512 bytes"},
        {"k HS256 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB", "SECRET must be 32 to 512 bytes"},
        {LOGIN_KID " ES256 ec.pem", "another line has this KID"},
        {"k\x80 ES256 ec.pem", "KID must be 1 to 128 visible ASCII"},
        {"k ES256 nothing.pem", "FILE.pem: No such file"},
        {"k ES256 fifo.pem", "FILE.pem: is no file"},
        {"k ES256 open.pem", "FILE.pem: others than its owner may write it"},
        {"k ES256 rsa.pem", "no key of the curve P-256"},
        {"k ES256 p384.pem", "no key of the curve P-256"},
        {"k RS256 ec.pem", "no RSA key of 2048 bits or more"},
        {"k RS256 rsa1024.pem", "no RSA key of 2048 bits or more"},
        {"k ES256 ec.key", "private key"},
        {"k RS256 rsa.key", "private key"},
        {"k RS256 keys", "no -----BEGIN PUBLIC KEY-----"},
    };
    login_make_keys("p384", "-algorithm EC -pkeyopt ec_paramgen_curve:P-384");
    login_make_keys("rsa1024", "-algorithm RSA -pkeyopt rsa_keygen_bits:1024");
    login_write("keys", "\n");
    CHECK_INT(mkfifo(harness_format("%s/fifo.pem", harness_dir()), 0600), 0);
    CHECK_INT(chmod(login_write("open.pem", login_read("ec.pem")), 0622), 0);
    const char *good = login_key_line(LOGIN_KID, LOGIN_SECRET);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_bad_file(harness_format("%s%s\n", good, rows[i].line), 2, rows[i].piece, AUTH_BUYER_KEYS);
    check_bad_file(harness_format("%s ES256 ec.pem\n", harness_repeat('k', TICKET_KID_MAX + 1)), 1,
                   "KID must", AUTH_BUYER_KEYS);
}

/* ---- tickets that are taken ---- */

#define SOON "1893456060" /* a minute after the tests begin */

static void tickets_of_each_algorithm(void) {
    char said[600];
    const char *claims = "{\"sub\":\"auth0|ann+1=~:x@example.org\",\"exp\":" SOON ",\"more\":{\"a\":[1]}}",
               *user = "auth0|ann+1=~:x@example.org";
    open_auth(NULL, all_keys());
    for (int i = 0; i < 2; i++) { /* the second time they are found again */
        check_caller(login_sign("HS256", LOGIN_KID, LOGIN_SECRET, claims), ROLE_BUYER, "", user);
        check_caller(login_sign("RS256", "rsa", login_read("rsa.key"), claims), ROLE_BUYER, "", user);
    }
    const char *ec = login_sign("ES256", "ec", login_read("ec.key"), claims);
    check_caller(ec, ROLE_BUYER, "", user);
    check_caller(ec, ROLE_BUYER, "", user);
    check_caller("the-admin-token", ROLES_ALL, "admin", "");
    CHECK(auth_identify(view, NULL, 0, &caller) == NULL); /* a call that needs a role is refused */
    CHECK_INT(caller.roles, 0);
    auth_describe(auth, AUTH_BUYER_KEYS, said, sizeof said);
    CHECK_HAS(said, "/keys has 3 keys: login-1 (HS256), ec (ES256), rsa (RS256)");
}

static void items_of_tickets(void) {
    static const struct {
        const char *more, *admits, *refuses;
    } rows[] = {
        {"", "lamp phone lamp2", ""},
        {",\"items\":[\"lamp\"]", "lamp", "phone lam amp lamp2 2lamp p"},
        {",\"items\":[\"lamp\",\"a.b_c-9\",\"lamp2\"]", "lamp lamp2 a.b_c-9", "phone a.b lamp3"},
        {",\"items\":[]", "", "lamp phone"},
        {",\"items\":[ \"\\u006camp\" ]", "lamp", "phone"},
    };
    open_auth(NULL, all_keys());
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof *rows); i++) { /* each twice */
        char *admits = harness_format("%s", rows[i / 2].admits),
             *refuses = harness_format("%s", rows[i / 2].refuses);
        check_caller(login_ticket_with("ann", rows[i / 2].more), ROLE_BUYER, "", "ann");
        for (char *item; (item = strsep(&admits, " "));)
            CHECK(!*item || caller_may_buy(&caller, item));
        for (char *item; (item = strsep(&refuses, " "));)
            if (*item && caller_may_buy(&caller, item))
                FAIL("%s admits to %s", rows[i / 2].more, item);
    }
    /* As many as fit: they are not kept, but verified anew. */
    char *list = harness_format(",\"items\":[\"last\"");
    for (int i = 0; i < 40; i++)
        list = harness_format("%s,\"%s\"", list, harness_repeat((char)('a' + i % 26), 60));
    const char *ticket = login_ticket_with("ann", harness_format("%s]", list));
    for (int i = 0; i < 2; i++) {
        check_caller(ticket, ROLE_BUYER, "", "ann");
        CHECK(caller_may_buy(&caller, "last") && caller_may_buy(&caller, harness_repeat('z', 60)));
        CHECK(!caller_may_buy(&caller, "lamp"));
    }
}

/* By the clock, to the millisecond; also of a ticket that is known. */
static void times_of_tickets(void) {
    open_auth(NULL, all_keys());
    const char *ticket = login_ticket_with("ann", ",\"nbf\":1893456000") /* 2030-01-01T00:00:00Z */,
               *brief = login_forge("{\"alg\":\"HS256\",\"kid\":\"" LOGIN_KID "\"}",
                                    "{\"sub\":\"ann\",\"exp\":1893456060.5,\"nbf\":1893456001}", LOGIN_SECRET,
                                    strlen(LOGIN_SECRET));
    for (int i = 0; i < 2; i++) {
        turn_to("2029-12-31T23:59:59.999Z");
        check_refused(ticket, "not valid yet");
        turn_to("2030-01-01T00:00:00Z");
        check_caller(ticket, ROLE_BUYER, "", "ann");
        check_refused(brief, "not valid yet");
        turn_to("2030-01-01T00:00:01Z");
        check_caller(brief, ROLE_BUYER, "", "ann");
        turn_to("2030-01-01T00:01:00.499Z");
        check_caller(brief, ROLE_BUYER, "", "ann");
        turn_to("2030-01-01T00:01:00.500Z");
        check_refused(brief, "expired");
        check_caller(ticket, ROLE_BUYER, "", "ann");
        turn_to("2100-01-01T00:00:00Z");
        check_refused(ticket, "expired");
    }
}

/* ---- tickets that are refused ---- */

#define HEAD(alg, kid) "{\"alg\":\"" alg "\",\"typ\":\"JWT\",\"kid\":\"" kid "\"}"

static const char *forge(const char *head, const char *claims) {
    return login_forge(head, claims, LOGIN_SECRET, strlen(LOGIN_SECRET));
}

static void claims_that_are_refused(void) {
    static const struct {
        const char *claims, *piece;
    } rows[] = {
        {"{\"sub\":\"ann\"}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":\"" SOON "\"}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":null}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":true}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":[" SOON "]}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":-1}", "no exp"},
        {"{\"sub\":\"ann\",\"exp\":0}", "expired"},
        {"{\"sub\":\"ann\",\"exp\":1893455999}", "expired"},
        {"{\"sub\":\"ann\",\"exp\":1893456000}", "expired"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"nbf\":" SOON "}", "not valid yet"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"nbf\":\"0\"}", "nbf is no time"},
        {"{\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":\"\",\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":7,\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":\"a b\",\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":\"ann\\n\",\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":\"a/b\",\"exp\":" SOON "}", "sub is no user"},
        {"{\"sub\":\"ann\\u0000\",\"exp\":" SOON "}", ""},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":\"lamp\"}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":null}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":{\"lamp\":1}}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":[1]}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":[\"lamp\",\"a b\"]}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":[\"lamp\",[\"a\"]]}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON ",\"items\":[\"\"]}", "items are no list"},
        {"{\"sub\":\"ann\",\"exp\":" SOON "} x", ""},
        {"[]", ""},
        {"", ""},
    };
    open_auth(NULL, all_keys());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused(forge(HEAD("HS256", LOGIN_KID), rows[i].claims), rows[i].piece);
    check_refused(login_ticket(harness_repeat('u', INVENTORY_USER_MAX + 1)), "sub is no user");
    check_caller(login_ticket(harness_repeat('u', INVENTORY_USER_MAX)), ROLE_BUYER, "",
                 harness_repeat('u', INVENTORY_USER_MAX));
}

/* The algorithm is the line's: whoever writes another into the head of a ticket gains nothing. */
static void heads_that_are_refused(void) {
    static const char claims[] = "{\"sub\":\"ann\",\"exp\":" SOON "}";
    open_auth(NULL, all_keys());
    check_caller(forge(HEAD("HS256", LOGIN_KID), claims), ROLE_BUYER, "", "ann");
    static const struct {
        const char *head, *piece;
    } rows[] = {
        {HEAD("none", LOGIN_KID), "alg"},
        {HEAD("None", LOGIN_KID), ""},
        {HEAD("HS384", LOGIN_KID), "alg"},
        {HEAD("HS512", LOGIN_KID), "alg"},
        {HEAD("RS256", LOGIN_KID), "alg"},
        {HEAD("ES256", LOGIN_KID), "alg"},
        {HEAD("HS256", "login-2"), "kid"},
        {HEAD("HS256", ""), "kid"},
        {HEAD("HS256", "login-1 "), "kid"},
        {"{\"alg\":\"HS256\"}", "kid"},
        {"{\"alg\":\"HS256\",\"kid\":1}", "kid"},
        {"{\"kid\":\"" LOGIN_KID "\"}", ""},
        {"{\"alg\":\"HS256\",\"kid\":\"" LOGIN_KID "\",\"crit\":[\"b64\"],\"b64\":false}", "crit"},
        {"{\"alg\":\"HS256\",\"alg\":\"none\",\"kid\":\"" LOGIN_KID "\"}", ""},
        {"[]", ""},
        {"x", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused(forge(rows[i].head, claims), rows[i].piece);
}

/* A public key is no secret, and no signature is none. */
static void algorithms_that_are_confused(void) {
    static const char claims[] = "{\"sub\":\"ann\",\"exp\":" SOON "}";
    static const char *const names[] = {"rsa", "ec"};
    open_auth(NULL, all_keys());
    for (int i = 0; i < 2; i++) {
        const char *pem = login_read(harness_format("%s.pem", names[i]));
        check_refused(login_sign("HS256", names[i], pem, claims), "alg");
        check_refused(login_sign("HS512", names[i], pem, claims), "alg");
        const char *trimmed = harness_format("%.*s", (int)strlen(pem) - 1, pem);
        check_refused(login_sign("HS256", names[i], trimmed, claims), "alg");
    }
    check_refused(login_sign("RS256", "ec", login_read("rsa.key"), claims), "alg");
    check_refused(login_sign("RS384", "rsa", login_read("rsa.key"), claims), "alg");
    /* A good signature, by the key of another line. */
    login_make_keys("other", "RS256");
    check_refused(login_sign("RS256", "rsa", login_read("other.key"), claims), "signature");
    check_refused(login_sign("HS256", LOGIN_KID, "another secret of at least 32 bytes", claims), "signature");
    /* No signature, in each way to write that. */
    const char *good = login_ticket("ann"), *none = forge(HEAD("none", LOGIN_KID), claims);
    int signed_part = (int)(strrchr(good, '.') - good), none_part = (int)(strrchr(none, '.') - none);
    check_refused(harness_format("%.*s.", signed_part, good), "");
    check_refused(harness_format("%.*s", signed_part, good), "");
    check_refused(harness_format("%.*s.", none_part, none), "");
    check_refused(harness_format("%.*s.AA", none_part, none), "");
    check_caller(good, ROLE_BUYER, "", "ann");
}

static void forms_that_are_refused(void) {
    open_auth(NULL, all_keys());
    const char *good = login_ticket("ann");
    static const char *const around[][2] = {{"", "."},    {".", ""},   {"", "="},  {"", "=="},
                                            {" ", ""},    {"", " "},   {"", "\n"}, {"", ".e30.AAAA"},
                                            {"", "\x80"}, {"\"", "\""}};
    for (size_t i = 0; i < sizeof around / sizeof *around; i++)
        check_refused(harness_format("%s%s%s", around[i][0], good, around[i][1]), "");
    check_refused("..", "");
    check_refused("a.b.c", "");
    /* At its longest, and longer. */
    const char *shortest = login_ticket_with("ann", ",\"x\":\"\"");
    size_t more = (TICKET_MAX - strlen(shortest)) / 4 * 3;
    const char *longest =
        login_ticket_with("ann", harness_format(",\"x\":\"%s\"", harness_repeat('x', more)));
    CHECK(strlen(longest) <= TICKET_MAX && strlen(longest) > TICKET_MAX - 8);
    check_caller(longest, ROLE_BUYER, "", "ann");
    check_refused(login_ticket_with("ann", harness_format(",\"x\":\"%s\"", harness_repeat('x', more + 12))),
                  "longer than 4096");
    check_refused(harness_repeat('a', 100000), "");
}

/* Every character is changed to every other one; the ticket is known already. */
static void altered_tickets(void) {
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.= +/\x80\x9e\xff";
    static const char claims[] = "{\"sub\":\"ann\",\"exp\":" SOON "}";
    open_auth(NULL, all_keys());
    const char *tickets[] = {login_ticket("ann"), login_sign("ES256", "ec", login_read("ec.key"), claims),
                             login_sign("RS256", "rsa", login_read("rsa.key"), claims)};
    for (int i = 0; i < 3; i++) {
        check_caller(tickets[i], ROLE_BUYER, "", "ann");
        char *text = harness_format("Bearer %s", tickets[i]);
        size_t length = strlen(text);
        for (size_t at = 7; at < length; at++) {
            char kept = text[at];
            for (const char *c = alphabet; *c; c++) {
                bool is_neighbour =
                    kept == '.' || ((c - alphabet) ^ (strchr(alphabet, kept) - alphabet)) == 1;
                if (*c == kept || (i > 0 && !is_neighbour)) /* the slow algorithms: only the last bit */
                    continue;
                text[at] = *c;
                if (!auth_identify(view, text, length, &caller))
                    FAIL("taken with %c for %c at %zu: %s", *c, kept, at, text);
            }
            text[at] = kept;
        }
        /* What some decoders of base64 leave out. */
        for (size_t at = (size_t)(strrchr(text, '.') + 1 - text); at <= length; at += 7)
            for (const char *c = "= \n.\x80\x9e\xff"; *c; c++) {
                const char *longer = harness_format("%.*s%c%s", (int)at, text, *c, text + at);
                if (!auth_identify(view, longer, length + 1, &caller))
                    FAIL("taken with %#x at %zu: %s", (unsigned char)*c, at, text);
            }
        for (size_t cut = 8; cut < length; cut++)
            CHECK(auth_identify(view, text, cut, &caller) != NULL);
        CHECK(auth_identify(view, text, length, &caller) == NULL);
    }
}

/* ---- files that change ---- */

static void check_reload(enum auth_source kind, enum auth_reload outcome, const char *piece) {
    char said[600] = "";
    CHECK_INT(auth_reload(auth, kind, said, sizeof said), outcome);
    CHECK_HAS(said, piece);
    *said = '\0';
    CHECK_INT(auth_reload(auth, kind, said, sizeof said), AUTH_UNCHANGED); /* it is told once */
    CHECK_STR(said, "");
}

static void tokens_that_change(void) {
    const char *web = login_token_line("web", "shop", "1", ""),
               *ann = login_token_line("ann", "ops", "2", "");
    open_auth(web, NULL);
    CHECK_INT(auth_reload(auth, AUTH_BUYER_KEYS, NULL, 0), AUTH_UNCHANGED);
    check_refused("ann-2", "");
    login_write("tokens", harness_format("%s%s", web, ann));
    check_refused("ann-2", "");
    check_reload(AUTH_TOKENS, AUTH_RELOADED, "2 tokens: web (shop), ann (ops)");
    check_caller("ann-2", ROLE_OPS, "ann", "");
    check_caller("web-1", ROLE_SHOP, "web", "");
    /* Whatever is wrong with a new file, the old one stays. */
    const char *path = login_write("tokens", harness_format("%sweb shop\n", ann));
    check_reload(AUTH_TOKENS, AUTH_REFUSED, harness_format("%s:2: ", path));
    check_caller("web-1", ROLE_SHOP, "web", "");
    CHECK_INT(chmod(login_write("tokens", ann), 0644), 0);
    check_reload(AUTH_TOKENS, AUTH_REFUSED, "chmod 600");
    check_caller("web-1", ROLE_SHOP, "web", "");
    CHECK_INT(chmod(path, 0600), 0);
    check_reload(AUTH_TOKENS, AUTH_RELOADED, "1 token: ann (ops)");
    check_refused("web-1", "not known");
    CHECK_INT(unlink(path), 0);
    check_reload(AUTH_TOKENS, AUTH_REFUSED, "No such file");
    check_caller("ann-2", ROLE_OPS, "ann", "");
    CHECK_INT(mknod(path, S_IFSOCK | 0600, 0), 0); /* it is there, and cannot be opened */
    check_reload(AUTH_TOKENS, AUTH_REFUSED, "No such device");
    login_write("tokens", "# nobody\n");
    check_reload(AUTH_TOKENS, AUTH_RELOADED, "0 tokens");
    check_refused("ann-2", "not known");
    check_caller("the-admin-token", ROLES_ALL, "admin", "");
}

/* A ticket that is known is not taken any more once its key is gone. */
static void keys_that_change(void) {
    open_auth(NULL, all_keys());
    const char *ticket = login_ticket("ann"),
               *next = login_sign("HS256", "login-2", "another secret of at least 32 bytes",
                                  "{\"sub\":\"bob\",\"exp\":" SOON "}");
    const char *line = login_key_line("login-2", "another secret of at least 32 bytes");
    check_caller(ticket, ROLE_BUYER, "", "ann");
    check_refused(next, "kid");
    login_write("keys", harness_format("%s%s", all_keys(), line));
    check_reload(AUTH_BUYER_KEYS, AUTH_RELOADED, "4 keys");
    check_caller(ticket, ROLE_BUYER, "", "ann");
    check_caller(next, ROLE_BUYER, "", "bob");
    login_write("keys", line);
    check_reload(AUTH_BUYER_KEYS, AUTH_RELOADED, "1 key: login-2 (HS256)");
    check_refused(ticket, "kid");
    check_caller(next, ROLE_BUYER, "", "bob");
    /* The same id, another secret. */
    login_write("keys", login_key_line("login-2", LOGIN_SECRET));
    check_reload(AUTH_BUYER_KEYS, AUTH_RELOADED, "1 key");
    check_refused(next, "signature");
}

enum { THREADS = 4, RELOADS = 200 };
static _Atomic int running;

/* One token and one key stand in each version of the files: they are always good, and what is in no version
 * never is. */
static void *ask(void *arg) {
    const char *const *credentials = arg;
    struct auth_view *own = auth_view_open(auth);
    struct caller who;
    while (atomic_load(&running)) {
        for (int i = 0; i < 3; i++) {
            const char *why = auth_identify(own, credentials[i], strlen(credentials[i]), &who);
            CHECK((why == NULL) == (i < 2));
        }
    }
    auth_view_close(own);
    return NULL;
}

static void threads_beside_changes(void) {
    char said[600];
    const char *web = login_token_line("web", "shop", "1", ""),
               *key = login_key_line(LOGIN_KID, LOGIN_SECRET);
    open_auth(web, key);
    const char *credentials[] = {"Bearer web-1", harness_format("Bearer %s", login_ticket("ann")),
                                 "Bearer web-2"};
    pthread_t threads[THREADS];
    atomic_store(&running, 1);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, ask, credentials), 0);
    for (int i = 0; i < RELOADS; i++) {
        login_write("tokens",
                    harness_format("%s%s", i % 2 ? "#\n" : login_token_line("x", "ops", "y", ""), web));
        login_write("keys", harness_format("%s%s", i % 2 ? "#\n" : login_key_line("x", LOGIN_SECRET), key));
        auth_reload(auth, AUTH_TOKENS, said, sizeof said);
        auth_reload(auth, AUTH_BUYER_KEYS, said, sizeof said);
    }
    atomic_store(&running, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    login_make_keys("ec", "ES256");
    login_make_keys("rsa", "RS256");
    harness_run("tokens and their roles", tokens_and_roles);
    harness_run("several lines of a name, and of a token", several_lines);
    harness_run("bad lines of tokens", bad_tokens);
    harness_run("files that are refused", files_that_are_refused);
    harness_run("bad lines of keys", bad_keys);
    harness_run("tickets of each algorithm", tickets_of_each_algorithm);
    harness_run("items of tickets", items_of_tickets);
    harness_run("times of tickets", times_of_tickets);
    harness_run("claims that are refused", claims_that_are_refused);
    harness_run("heads that are refused", heads_that_are_refused);
    harness_run("algorithms that are confused", algorithms_that_are_confused);
    harness_run("forms that are refused", forms_that_are_refused);
    harness_run("altered tickets", altered_tickets);
    harness_run("tokens that change", tokens_that_change);
    harness_run("keys that change", keys_that_change);
    harness_run("threads beside changes", threads_beside_changes);
    return harness_finish();
}

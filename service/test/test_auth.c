/* The two files of credentials without a service: tokens, keys, and what happens when a file changes. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/test/login.h"
#include "service/test/opened_auth.h"
#include "test/harness.h"

static void check_bad_file(const char *text, int line, const char *piece, enum auth_source kind) {
    char error[512] = "";
    const char *path = login_write("bad", text);
    struct auth_config config = {"a", {"", ""}, &auth_clock};
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
    auth_open_files(harness_format("# who may what\n\n  %s\t%s%s%s", login_token_line("web", "shop", "1", ""),
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
    auth_open_files(
        harness_format("%s%s%s%s", login_token_line("web", "shop", "old", " 2030-02-01T00:00:00+01:00"),
                       login_token_line("web", "shop", "new", ""), login_token_line("ann", "ops", "x", ""),
                       login_token_line("ann", "read", "x", " 2030-01-15T00:00:00Z")),
        NULL);
    check_caller("web-old", ROLE_SHOP, "web", "");
    check_caller("web-new", ROLE_SHOP, "web", "");
    check_caller("ann-x", ROLE_OPS | ROLE_READ, "ann", "");
    auth_turn_to("2030-01-31T23:00:00Z");
    check_caller("web-old", ROLE_SHOP, "web", "");
    check_caller("ann-x", ROLE_OPS, "ann", "");
    auth_turn_to("2030-01-31T23:00:00.001Z");
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
    struct auth_config config = {"a", {path, ""}, &auth_clock};
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
    auth_open_files(web, NULL);
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
    auth_open_files(NULL, auth_all_keys());
    const char *ticket = login_ticket("ann"),
               *next = login_sign("HS256", "login-2", "another secret of at least 32 bytes",
                                  "{\"sub\":\"bob\",\"exp\":" SOON "}");
    const char *line = login_key_line("login-2", "another secret of at least 32 bytes");
    check_caller(ticket, ROLE_BUYER, "", "ann");
    check_refused(next, "kid");
    login_write("keys", harness_format("%s%s", auth_all_keys(), line));
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
    auth_open_files(web, key);
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
    harness_run("tokens that change", tokens_that_change);
    harness_run("keys that change", keys_that_change);
    harness_run("threads beside changes", threads_beside_changes);
    return harness_finish();
}

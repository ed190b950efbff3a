/* Who is let in: users, and the tokens that libetcd gets for them; TLS, with servers with certificates of our
 * own making, and clients that trust them, or do not. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "lock/libetcd/etcd_client.h"
#include "lock/libetcd/test/tools.h"
#include "lock/libetcd/v3lock.h"

enum { THREADS = 8 };

/* As root. --bcrypt-cost 4 makes logins cheap where their cost does not matter. */

#define CTL(server, ...) etcd_command(server, __VA_ARGS__, "--user", "root:rootpw", NULL)

/* The number of tokens so far. */
static uint64_t tokens(struct etcd *etcd) {
    pthread_mutex_lock(&etcd->auth.mutex);
    uint64_t number = etcd->auth.token_number;
    pthread_mutex_unlock(&etcd->auth.mutex);
    return number;
}

/* `error`: ETCD_ERROR_SIZE bytes, or NULL. */
static enum etcd_status put(struct etcd *etcd, const char *key, char error[ETCD_ERROR_SIZE]) {
    struct etcd_call call = {.error_size = ETCD_ERROR_SIZE};
    call.error = error;
    const struct etcd_put it = {.key = etcd_text(key), .value = etcd_text("1")};
    return etcd_put(etcd, &it, &call, NULL);
}

static enum etcd_status get(struct etcd *etcd, const char *key, char error[ETCD_ERROR_SIZE]) {
    struct etcd_call call = {.error_size = ETCD_ERROR_SIZE};
    call.error = error;
    const struct etcd_range it = {.key = etcd_text(key)};
    return etcd_range(etcd, &it, &call, NULL);
}

/* ---- one server with users ---- */

static struct etcd_server server;

static void permissions(void) {
    struct etcd *alice = tools_open_as(&server, "alice", "secret-word"),
                *bob = tools_open_as(&server, "bob", "bobpw");
    char error[ETCD_ERROR_SIZE] = "";
    CHECK_STATUS(put(alice, "b1", error), ETCD_OK);
    CHECK_STATUS(put(alice, "a", error), ETCD_OK);
    CHECK_STATUS(get(bob, "b1", error), ETCD_OK);
    CHECK_STR(error, "");
    CHECK_STATUS(get(bob, "a", error), ETCD_DENIED);
    CHECK_HAS(error, "permission denied");
    CHECK_STATUS(put(bob, "b1", NULL), ETCD_DENIED);
    const struct etcd_op op = {ETCD_PUT, .put = {.key = etcd_text("b1")}};
    const struct etcd_txn txn = {.otherwise = &op, .otherwise_count = 1};
    CHECK_STATUS(etcd_txn(bob, &txn, NULL, NULL), ETCD_DENIED);
    CHECK_INT(tokens(bob), 1); /* the client does not log in again */
    /* The lock service acts with the permissions of its caller. */
    int64_t lease = tools_grant(alice, 100), revision;
    struct etcd_bytes *key;
    CHECK_STATUS(etcd_lock(bob, etcd_text("b"), lease, NULL, &key, &revision), ETCD_DENIED);
    CHECK_STATUS(etcd_lock(alice, etcd_text("b"), lease, NULL, &key, &revision), ETCD_OK);
    CHECK_STATUS(etcd_unlock(alice, *key, NULL), ETCD_OK);
    etcd_lock_key_free(key);
    struct etcd_member_status status;
    struct etcd_members *members;
    CHECK_STATUS(etcd_member_status(bob, 0, NULL, &status), ETCD_OK);
    CHECK_STATUS(etcd_member_list(bob, NULL, &members), ETCD_OK);
    etcd_members_free(members);
}

static void check_denied(const char *user, const char *password, const char *text) {
    struct etcd *etcd = tools_open_as(&server, user, password);
    char error[ETCD_ERROR_SIZE] = "";
    CHECK_STATUS(get(etcd, "b1", error), ETCD_DENIED);
    CHECK_HAS(error, text);
    CHECK(!password || !*password || !strstr(error, password));
    CHECK_STATUS(put(etcd, "b1", error), ETCD_DENIED);
}

static void unknown_users(void) {
    check_denied("alice", "Secret-word", "authentication failed");
    check_denied("alice", "", "authentication failed");
    check_denied("nobody", "secret-word", "authentication failed");
    check_denied("", "secret-word", "authentication failed");
    check_denied(NULL, NULL, "user name is empty");
}

/* Tokens go through Raft, so the server knows them after the restart. */
static void server_restarts(void) {
    struct etcd *alice = tools_open_as(&server, "alice", "secret-word");
    CHECK_STATUS(put(alice, "a", NULL), ETCD_OK);
    etcd_kill(&server);
    etcd_restart(&server);
    char error[ETCD_ERROR_SIZE] = "";
    CHECK_STATUS(put(alice, "a", error), ETCD_OK);
    CHECK_STR(error, "");
}

static void password_changes(void) {
    CHECK_HAS(CTL(&server, "user", "add", "carol:one"), "created");
    CHECK(!strstr(CTL(&server, "user", "grant-role", "carol", "all"), "Error"));
    struct etcd *carol = tools_open_as(&server, "carol", "one");
    CHECK_STATUS(put(carol, "c", NULL), ETCD_OK);
    CHECK_HAS(CTL(&server, "user", "delete", "carol"), "deleted");
    CHECK_HAS(CTL(&server, "user", "add", "carol:two"), "created");
    CHECK_STATUS(put(carol, "c", NULL), ETCD_DENIED);
    CHECK(!strstr(CTL(&server, "user", "grant-role", "carol", "all"), "Error"));
    CHECK_STATUS(put(tools_open_as(&server, "carol", "two"), "c", NULL), ETCD_OK);
}

/* ---- tokens that expire ---- */

struct crowd {
    struct etcd *etcd;
    pthread_t threads[THREADS];
    atomic_int next;
    atomic_bool stop;
    int puts; /* of each thread; 0: until `stop` */
};

static void *put_often(void *arg) {
    struct crowd *crowd = arg;
    const char *key = harness_format("k%d", atomic_fetch_add(&crowd->next, 1));
    for (int i = 0; crowd->puts ? i < crowd->puts : !atomic_load(&crowd->stop); i++) {
        char error[ETCD_ERROR_SIZE] = "";
        enum etcd_status status = i % 2 ? get(crowd->etcd, key, error) : put(crowd->etcd, key, error);
        if (status != ETCD_OK)
            FAIL("%s: %s", etcd_status_text(status), error);
    }
    return NULL;
}

static void start(struct crowd *crowd) {
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&crowd->threads[i], NULL, put_often, crowd), 0);
}

static void join(struct crowd *crowd) {
    atomic_store(&crowd->stop, true);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(crowd->threads[i], NULL), 0);
}

static void tokens_expire(void) {
    struct etcd_server hasty;
    etcd_start(&hasty, "--auth-token-ttl", "1", "--bcrypt-cost", "4", NULL);
    tools_add_users(&hasty);
    tools_enable_auth(&hasty);
    struct etcd *alice = tools_open_as(&hasty, "alice", "secret-word");
    char error[ETCD_ERROR_SIZE] = "";
    CHECK_STATUS(put(alice, "a", error), ETCD_OK);
    uint64_t before = tokens(alice);
    harness_pause_ms(2200); /* it lives for a second, and expires in the next */
    struct crowd crowd = {.etcd = alice, .puts = 20};
    start(&crowd);
    join(&crowd);
    CHECK(tokens(alice) > before);
    CHECK(tokens(alice) < before + THREADS); /* one login serves all threads */

    CHECK_STATUS(put(alice, "a", error), ETCD_OK);
    CHECK_STR(error, "");
}

/* JWT, with keys from openssl. Such a token contains the revision of the auth store. */
static void tokens_of_old_revision(void) {
    struct etcd_server signing;
    struct proc proc;
    int status;
    const char *key = harness_format("%s/jwt.key", harness_dir());
    const char *argv[] = {
        "sh", "-c",
        harness_format("openssl genrsa -out %s 2048 && openssl rsa -in %s -pubout -out %s.pub", key, key,
                       key),
        NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s/openssl.log", harness_dir()));
    CHECK(proc_wait(&proc, PATIENCE_MS, &status));
    CHECK_INT(status, 0);
    etcd_start(&signing, "--auth-token",
               harness_format("jwt,pub-key=%s.pub,priv-key=%s,sign-method=RS256,ttl=600s", key, key), NULL);
    tools_add_users(&signing);
    tools_enable_auth(&signing);
    struct etcd *alice = tools_open_as(&signing, "alice", "secret-word");
    CHECK_STATUS(put(alice, "a", NULL), ETCD_OK);
    CHECK_INT(tokens(alice), 1);
    CHECK_HAS(CTL(&signing, "user", "add", "dave:one"), "created");
    char error[ETCD_ERROR_SIZE] = "";
    CHECK_STATUS(put(alice, "a", error), ETCD_OK);
    CHECK_INT(tokens(alice), 2);
    CHECK_STR(error, "");
    CHECK_HAS(CTL(&signing, "user", "delete", "dave"), "deleted");
    CHECK_STATUS(get(alice, "a", error), ETCD_OK);
    /* While eight threads call. */
    struct crowd crowd = {.etcd = alice};
    start(&crowd);
    for (int i = 0; i < 6; i++)
        CHECK_HAS(CTL(&signing, "user", "add", harness_format("user%d:one", i)), "created");
    join(&crowd);
}

/* ---- on and off ---- */

static void auth_switched(void) {
    struct etcd_server plain;
    etcd_start(&plain, "--bcrypt-cost", "4", NULL);
    struct etcd *alice = tools_open_as(&plain, "alice", "secret-word"),
                *none = tools_open_as(&plain, NULL, NULL);
    CHECK_STATUS(put(alice, "a", NULL), ETCD_OK);
    CHECK_STATUS(put(none, "a", NULL), ETCD_OK);
    tools_add_users(&plain);
    struct crowd crowd = {.etcd = alice};
    start(&crowd);
    tools_enable_auth(&plain);
    CHECK_STATUS(put(alice, "a", NULL), ETCD_OK);
    CHECK_STATUS(put(none, "a", NULL), ETCD_DENIED);
    CHECK_HAS(CTL(&plain, "auth", "disable"), "Disabled");
    CHECK_STATUS(put(alice, "a", NULL), ETCD_OK);
    CHECK_STATUS(put(none, "a", NULL), ETCD_OK);
    tools_enable_auth(&plain);
    CHECK_STATUS(put(alice, "a", NULL), ETCD_OK);
    join(&crowd);
}

/* ---- certificates ---- */

enum { SOON_MS = 400 };

/* Two authorities. The first signed a server for 127.0.0.1 and localhost, one for another host, an expired
 * one, and a client; the second signed a client. */
static void make_certificates(void) {
    static const char here[] = "IP:127.0.0.1,DNS:localhost", both[] = "serverAuth,clientAuth";
    certificate_authority("ca");
    certificate_authority("other");
    certificate_make("server", "ca", 2, here, both);
    certificate_make("elsewhere", "ca", 2, "DNS:elsewhere.test", both);
    certificate_make("expired", "ca", -1, here, both);
    certificate_make("client", "ca", 2, "DNS:client", "clientAuth");
    certificate_make("stranger", "other", 2, "DNS:stranger", "clientAuth");
}

/* Its endpoint. */
static const char *start_tls(const char *certificate, bool asks_clients) {
    struct etcd_server own;
    etcd_start_tls(&own, "--cert-file", certificate_file(certificate, "pem"), "--key-file",
                   certificate_file(certificate, "key"), asks_clients ? "--client-cert-auth" : NULL,
                   "--trusted-ca-file", certificate_file("ca", "pem"), NULL);
    return harness_format("127.0.0.1:%d", own.port);
}

/* Makes a call with this authority and this client certificate (NULL: none). `refusal`: the reason in the
 * error; NULL: the call succeeds. */
static void check_tls(const char *endpoint, const char *authority, const char *certificate,
                      const char *refusal) {
    const struct etcd_config config = {
        .endpoints = endpoint,
        .ca_file = authority ? certificate_file(authority, "pem") : NULL,
        .cert_file = certificate ? certificate_file(certificate, "pem") : NULL,
        .key_file = certificate ? certificate_file(certificate, "key") : NULL,
        .timeout_ms = refusal ? SOON_MS : PATIENCE_MS,
    };
    struct etcd *etcd = tools_open_config(&config);
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    const struct etcd_put put = {.key = etcd_text("a"), .value = etcd_text("1")};
    int64_t until_ms = harness_now_ms() + PATIENCE_MS;
    do /* a busy machine may not get as far as the reason in time */
        CHECK_STATUS(etcd_put(etcd, &put, &call, NULL), refusal ? ETCD_UNAVAILABLE : ETCD_OK);
    while (refusal && !strstr(error, refusal) && harness_now_ms() < until_ms);
    CHECK_HAS(error, refusal ? refusal : "");
}

static void a_server_with_a_certificate(void) {
    const char *endpoint = start_tls("server", false);
    check_tls(endpoint, "ca", NULL, NULL);
    check_tls(harness_format("localhost%s", strchr(endpoint, ':')), "ca", NULL, NULL);
    check_tls(endpoint, "ca", "stranger", NULL); /* the server does not request a client certificate */
    check_tls(endpoint, "other", NULL, "certificate verify failed");
    check_tls(endpoint, NULL, NULL, "no member can be reached"); /* without TLS */
}

static void clients_with_certificates(void) {
    const char *endpoint = start_tls("server", true);
    check_tls(endpoint, "ca", "client", NULL);
    check_tls(endpoint, "ca", NULL, "no member can be reached");
    check_tls(endpoint, "ca", "stranger", "no member can be reached");
}

static void foreign_and_expired_certificates(void) {
    check_tls(start_tls("elsewhere", false), "ca", NULL, "is not in peer certificate");
    check_tls(start_tls("expired", false), "ca", NULL, "certificate verify failed");
}

static void a_server_without(void) {
    struct etcd_server own;
    etcd_start(&own, NULL);
    check_tls(tools_endpoints(&own, 1), "ca", NULL, "no member can be reached");
    check_tls(tools_endpoints(&own, 1), NULL, NULL, NULL);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    etcd_start(&server, "--bcrypt-cost", "4", NULL);
    tools_add_users(&server);
    tools_enable_auth(&server);
    harness_run("permissions", permissions);
    harness_run("unknown users", unknown_users);
    harness_run("the server restarts", server_restarts);
    harness_run("the password changes", password_changes);
    harness_run("tokens expire", tokens_expire);
    harness_run("tokens of an old auth revision", tokens_of_old_revision);
    harness_run("authentication is switched on and off", auth_switched);
    make_certificates();
    harness_run("a server with a certificate", a_server_with_a_certificate);
    harness_run("clients with certificates", clients_with_certificates);
    harness_run("foreign and expired certificates", foreign_and_expired_certificates);
    harness_run("a server without TLS", a_server_without);
    return harness_finish();
}

/* The lock in an etcd with authentication: passwords, certificates. */
#include <string.h>

#include "lock/test/etcd_tools.h"

static struct etcd_server etcd;

/* ---- passwords ---- */

static struct lock *open_as(const char *who) {
    return tools_open(NULL, harness_format("etcd://%s127.0.0.1:%d?ttl=4000", who, etcd.port));
}

/* Closed at once: what it may not take back it would go on asking for, and passwords cost the server time. */
static void check_denied(const char *who) {
    char error[LOCK_ERROR_SIZE];
    struct lock_grant grant;
    struct lock *lock;
    tools_check_status(lock_open(harness_format("etcd://%s127.0.0.1:%d?ttl=4000", who, etcd.port), NULL,
                                 &lock, error, sizeof error),
                       LOCK_OK);
    tools_check_status(lock_try(lock, "a", &grant), LOCK_UNAVAILABLE);
    tools_check_status(lock_acquire(lock, "a", tools_in_ms(lock, 100), NULL, &grant), LOCK_UNAVAILABLE);
    lock_close(lock);
}

static void check_can(const char *who) {
    struct lock *lock = open_as(who), *other = open_as(who);
    /* To check a password is meant to take time, and takes a busy machine longer than a call may. */
    tools_use_at_last(lock, "a");
    tools_use_at_last(other, "a");
    struct lock_grant grant = tools_acquire(lock, "a");
    struct tools_waiter *waiter = tools_wait(other, "a", PATIENCE_MS, NULL);
    harness_pause_ms(100);
    CHECK(!waiter->done);
    tools_check_status(lock_extend(lock, &grant), LOCK_OK);
    tools_release(lock, &grant);
    tools_check_status(tools_join(waiter), LOCK_OK);
    tools_release(other, &waiter->grant);
}

static void passwords(void) {
    etcd_start(&etcd, NULL);
    CHECK_HAS(etcd_command(&etcd, "user", "add", "root:s3cr:et@/?%", NULL), "created");
    CHECK_HAS(etcd_command(&etcd, "user", "grant-role", "root", "root", NULL), "granted");
    CHECK_HAS(etcd_command(&etcd, "user", "add", "al:s3cret", NULL), "created");
    CHECK_HAS(etcd_command(&etcd, "role", "add", "locks", NULL), "created");
    CHECK_HAS(etcd_command(&etcd, "user", "grant-role", "al", "locks", NULL), "granted");
    CHECK_HAS(etcd_command(&etcd, "auth", "enable", NULL), "Enabled");
    check_can("root:s3cr%3aet%40%2F%3f%25@");
    check_can("root:s3cr:et@%2F%3f%25@"); /* what need not be written so */
    check_denied("");
    check_denied("root:s3cr@");
    check_denied("root:@");
    check_denied("nobody:s3cret@");
    /* The permissions are those on the keys of locks. */
    check_denied("al:s3cret@");
    CHECK_HAS(etcd_command(&etcd, "--command-timeout", "20s", "--user", "root:s3cr:et@/?%", "role",
                           "grant-permission", "locks", "readwrite", "--prefix", "lock", NULL),
              "updated");
    check_can("al:s3cret@");
}

/* ---- certificates ---- */

static int start_secure(void) {
    struct etcd_server server;
    etcd_start_tls(&server, "--cert-file", certificate_file("both", "pem"), "--key-file",
                   certificate_file("both", "key"), "--trusted-ca-file", certificate_file("ca", "pem"),
                   "--client-cert-auth", NULL);
    return server.port;
}

static void certificates(void) {
    static const char here[] = "IP:127.0.0.1", both_uses[] = "serverAuth,clientAuth";
    certificate_authority("ca");
    certificate_authority("other");
    certificate_make("both", "ca", 2, here, both_uses);
    certificate_make("stranger", "other", 2, here, both_uses);
    const char *where = harness_format("etcd://127.0.0.1:%d?ttl=4000", start_secure());
    const char *ca = certificate_file("ca", "pem"), *pem = certificate_file("both", "pem"),
               *key = certificate_file("both", "key");
    struct lock *lock = tools_open(NULL, harness_format("%s&ca=%s&cert=%s&key=%s", where, ca, pem, key));
    tools_use(lock, "a");
    const char *const wrong[] = {
        where, harness_format("%s&ca=%s", where, ca),
        harness_format("%s&ca=%s&cert=%s&key=%s", where, certificate_file("other", "pem"), pem, key),
        harness_format("%s&ca=%s&cert=%s&key=%s", where, ca, certificate_file("stranger", "pem"),
                       certificate_file("stranger", "key"))};
    struct lock_grant grant;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        tools_check_status(lock_try(tools_open(NULL, wrong[i]), "a", &grant), LOCK_UNAVAILABLE);
    tools_refuse(harness_format("%s&cert=%s&key=%s", where, pem, key), NULL, "want ");
    tools_refuse(harness_format("%s&ca=%s&cert=%s", where, ca, pem), NULL, "want ");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("passwords", passwords);
    harness_run("certificates", certificates);
    return harness_finish();
}

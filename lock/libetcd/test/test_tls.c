/* TLS: servers with certificates of our own making, and clients that trust them, or do not. */
#include <string.h>

#include "lock/libetcd/test/tools.h"

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
static const char *start(const char *certificate, bool asks_clients) {
    struct etcd_server server;
    etcd_start_tls(&server, "--cert-file", certificate_file(certificate, "pem"), "--key-file",
                   certificate_file(certificate, "key"), asks_clients ? "--client-cert-auth" : NULL,
                   "--trusted-ca-file", certificate_file("ca", "pem"), NULL);
    return harness_format("127.0.0.1:%d", server.port);
}

/* Makes a call with this authority and this client certificate (NULL: none). `refusal`: the reason in the
 * error; NULL: the call succeeds. */
static void check(const char *endpoint, const char *authority, const char *certificate, const char *refusal) {
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
    const char *endpoint = start("server", false);
    check(endpoint, "ca", NULL, NULL);
    check(harness_format("localhost%s", strchr(endpoint, ':')), "ca", NULL, NULL);
    check(endpoint, "ca", "stranger", NULL); /* the server does not request a client certificate */
    check(endpoint, "other", NULL, "certificate verify failed");
    check(endpoint, NULL, NULL, "no member can be reached"); /* without TLS */
}

static void clients_with_certificates(void) {
    const char *endpoint = start("server", true);
    check(endpoint, "ca", "client", NULL);
    check(endpoint, "ca", NULL, "no member can be reached");
    check(endpoint, "ca", "stranger", "no member can be reached");
}

static void foreign_and_expired_certificates(void) {
    check(start("elsewhere", false), "ca", NULL, "is not in peer certificate");
    check(start("expired", false), "ca", NULL, "certificate verify failed");
}

static void a_server_without(void) {
    struct etcd_server server;
    etcd_start(&server, NULL);
    check(tools_endpoints(&server, 1), "ca", NULL, "no member can be reached");
    check(tools_endpoints(&server, 1), NULL, NULL, NULL);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    make_certificates();
    harness_run("a server with a certificate", a_server_with_a_certificate);
    harness_run("clients with certificates", clients_with_certificates);
    harness_run("foreign and expired certificates", foreign_and_expired_certificates);
    harness_run("a server without TLS", a_server_without);
    return harness_finish();
}

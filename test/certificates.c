/* Certificates of our own making, by openssl. */
#include <stdio.h>

#include "test/harness.h"

enum { PATIENCE_MS = 20000 };

static void run(const char *script) {
    struct proc proc;
    int status;
    const char *argv[] = {"sh", "-ec", harness_format("cd '%s'\n%s", harness_dir(), script), NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s/openssl.log", harness_dir()));
    CHECK(proc_wait(&proc, PATIENCE_MS, &status));
    CHECK_INT(status, 0);
}

#define NEW_KEY " -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=%1$s' -keyout %1$s.key "

void certificate_authority(const char *name) {
    run(harness_format("openssl req -x509 -days 2" NEW_KEY "-out %1$s.pem", name));
}

void certificate_make(const char *name, const char *authority, int days, const char *alternative_names,
                      const char *use) {
    run(harness_format(
        "openssl req" NEW_KEY "-out %1$s.csr\n"
        "printf 'subjectAltName=%4$s\\nextendedKeyUsage=%5$s\\n' >%1$s.ext\n"
        "openssl x509 -req -in %1$s.csr -CA %2$s.pem -CAkey %2$s.key -CAcreateserial -days %3$d"
        " -extfile %1$s.ext -out %1$s.pem",
        name, authority, days, alternative_names, use));
}

const char *certificate_file(const char *name, const char *kind) {
    return harness_format("%s/%s.%s", harness_dir(), name, kind);
}

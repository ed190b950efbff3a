/* Secrets: where they come from, and that they are never told. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/test/program.h"
#include "service/test/shop.h"

static void keeps_secret(struct seckilld *service, const char *secret) {
    struct web_response response;
    static const char *const paths[] = {"/readyz",     "/metrics",      "/livez",
                                        "/v1/items/x", "/openapi.json", "/x"};
    for (size_t i = 0, count = sizeof paths / sizeof *paths; i <= count; i++) {
        CHECK((i < count ? shop_get(service->port, paths[i], &response)
                         : shop_buy(service->port, "x", "u", 1, "k", &response)) != 0);
        CHECK(!strstr(response.body, secret) && !strstr(response.headers, secret));
    }
    const char *output = proc_output(&service->proc);
    if (strstr(output, secret))
        FAIL("%s is printed: %s", secret, output);
}

static void the_stores_password(void) {
    struct redis_server redis;
    struct seckilld service;
    redis_start(&redis, "--requirepass", "hunter2@/:", "--user", "seller", "on", ">s%cret", "~*", "&*",
                "+@all", NULL);
    const char *urls[] = {harness_format("redis://:hunter2%%40%%2F%%3a@127.0.0.1:%d", redis.port),
                          harness_format("redis://seller:s%%25cret@127.0.0.1:%d/3", redis.port)};
    for (int i = 0; i < 2; i++) {
        seckilld_start_ready(&service, 1, "--redis", urls[i], NULL);
        keeps_secret(&service, "hunter2");
        keeps_secret(&service, "cret");
        keeps_secret(&service, "test-token");
        CHECK_HAS(proc_output(&service.proc), harness_format("redis://127.0.0.1:%d/%d", redis.port, i * 3));
        shop_put(service.port, "sneaker", "\"stock\":1");
        CHECK_INT(seckilld_stop(&service), 0);
    }
}

static void a_wrong_password(void) {
    struct redis_server redis;
    struct seckilld service;
    struct web_response response;
    redis_start(&redis, "--requirepass", "right", NULL);
    seckilld_start(&service, 1, "--redis", harness_format("redis://:wr0ng-one@127.0.0.1:%d", redis.port),
                   NULL);
    shop_wait_unready(service.port, "WRONGPASS");
    keeps_secret(&service, "wr0ng-one");
    CHECK_INT(shop_buy(service.port, "x", "u", 1, "k", &response), 503);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    CHECK_INT(seckilld_stop(&service), 0);
    /* None given, none the less one is needed. */
    seckilld_start(&service, redis.port, NULL);
    shop_wait_unready(service.port, "NOAUTH");
}

static void secrets_in_mistakes(void) {
    char *lines = harness_format(
        "%s", "--rediss=redis://:hunter2@h|--redis=http://:hunter2@h|--redis redis://:hunter2@h:0|"
              "--lock redis://:hunter2@h:0|--lock redis://:hunter2@h?variant=set-del|redis://:hunter2@h");
    for (char *line; (line = strsep(&lines, "|"));) {
        const char *text = program_run(line, 2);
        if (strstr(text, "hunter2"))
            FAIL("seckilld %s says %s", line, text);
    }
}

/* ---- secrets in files ---- */

static const char *secret_file(const char *text, size_t size) {
    const char *path = harness_path("secret");
    FILE *file = fopen(path, "we");
    CHECK(file && fwrite(text, 1, size, file) == size && fclose(file) == 0);
    return path;
}

static const char *secret_of(const char *text) {
    return secret_file(text, strlen(text));
}

/* Error and log name the variable and the file, and say what to do; they tell nothing of what is in the file.
 */
static void refused_secret(const char *variable, const char *file, const char *right) {
    const char *given = harness_format("%s=%s", variable, file);
    program_check_refused(given, harness_format("%s: %s", variable, file), right);
    if (strstr(program_run(given, 2), "hunter2"))
        FAIL("%s tells the secret", given);
}

static void secret_files_that_are_refused(void) {
    static const char *const variables[] = {"SECKILL_ADMIN_TOKEN_FILE", "SECKILL_REDIS_FILE",
                                            "SECKILL_LOCK_FILE"};
    const char *closed = secret_of("hunter2");
    CHECK(chmod(closed, 0) == 0);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *variable = variables[i];
        program_check_refused(harness_format("%s=/no/such/file", variable),
                              harness_format("%s: cannot read /no/such/file: No such file", variable),
                              "a file that this user may read");
        program_check_refused(harness_format("%s=", variable),
                              harness_format("%s: cannot read : No such file", variable),
                              "a file that this user may read");
        program_check_refused(harness_format("%s=/tmp", variable),
                              harness_format("%s: cannot read /tmp: Is a dir", variable),
                              "a file that this user may read");
        if (geteuid() != 0)
            program_check_refused(harness_format("%s=%s", variable, closed),
                                  harness_format("%s: cannot read %s: Permission denied", variable, closed),
                                  "a file that this user may read");
        refused_secret(variable, secret_of(""), "is empty; write the value into it");
        refused_secret(variable, secret_of("\n"), "is empty; write the value into it");
        refused_secret(variable, secret_of(harness_format("hunter2%s", harness_repeat('x', 505))),
                       "longer than 511 characters; is it the right file?");
        refused_secret(variable, secret_of(harness_format("hunter2%s\n", harness_repeat('x', 9000))),
                       "longer than 511 characters; is it the right file?");
        refused_secret(variable, "/dev/zero", "longer than 511 characters; is it the right file?");
        refused_secret(variable, secret_of("hunter2\nhunter2\n"),
                       "not one line of text; is it the right file?");
        refused_secret(variable, secret_of("hunter2\n\n"), "not one line of text; is it the right file?");
        refused_secret(variable, secret_of("hunter2\r\n"), "not one line of text; is it the right file?");
        refused_secret(variable, secret_file("hunter2\0x", 9), "not one line of text; is it the right file?");
        /* Which of the two counts? */
        const char *plain = harness_format("%.*s", (int)(strlen(variable) - strlen("_FILE")), variable);
        program_check_refused(harness_format("%s=%s %s=hunter2", variable, secret_of("hunter2"), plain),
                              harness_format("%s and %s: both are set", plain, variable),
                              "unset one of them");
        program_check_refused(harness_format("%s=%s %s=", variable, secret_of("hunter2"), plain),
                              harness_format("%s and %s: both are set", plain, variable),
                              "unset one of them");
    }
    /* What is in it is wrong. */
    const char *wrong[] = {harness_format("SECKILL_REDIS_FILE=%s", secret_of("http://:hunter2@h")),
                           harness_format("SECKILL_LOCK_FILE=%s", secret_of("redis://:hunter2@h:0"))};
    for (int i = 0; i < 2; i++) {
        program_check_refused(wrong[i], i ? "SECKILL_LOCK_FILE: " : "SECKILL_REDIS_FILE: ", "redis");
        CHECK(!strstr(program_run(wrong[i], 2), "hunter2"));
    }
}

static void secret_files(void) {
    struct redis_server redis;
    struct program service;
    int port = harness_free_port();
    const char *longest = harness_repeat('t', 511);
    redis_start(&redis, "--requirepass", "hunter2", NULL);
    const char *url = harness_format("redis://:hunter2@127.0.0.1:%d", redis.port),
               *store = harness_format("SECKILL_REDIS_FILE=%s SECKILL_LOCK_FILE=%s", secret_of(url),
                                       secret_of(harness_format("%s/3\n", url)));
    const struct {
        const char *given, *token, *says[2];
    } starts[] = {
        {harness_format("%s SECKILL_ADMIN_TOKEN_FILE=%s", store, secret_of("a-token\n")),
         "a-token",
         {harness_format("store redis://127.0.0.1:%d/0", redis.port),
          harness_format("lock redis://127.0.0.1:%d/3", redis.port)}},
        {harness_format("%s SECKILL_ADMIN_TOKEN_FILE=%s", store, secret_of(longest)), longest, {NULL}},
        {harness_format("%s SECKILL_ADMIN_TOKEN_FILE=%s", store, secret_of(" a token\n")),
         " a token",
         {NULL}},
        /* The flag wins, and the variable wins over the file of settings. */
        {harness_format("%s SECKILL_ADMIN_TOKEN_FILE=%s --admin-token flag --lock local:", store,
                        secret_of("a-token")),
         "flag",
         {"lock local:"}},
        {harness_format(
             "%s SECKILL_ADMIN_TOKEN_FILE=%s --config %s", store, secret_of("a-token"),
             program_write_file("admin-token = config\nlock = local:\nredis = redis://127.0.0.1:1")),
         "a-token",
         {harness_format("lock redis://127.0.0.1:%d/3", redis.port)}},
    };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        program_start(&service, port, harness_format("%s --listen 127.0.0.1:%d", starts[i].given, port));
        int status = program_audit(port, starts[i].token);
        if (status == 0 || status == 401)
            FAIL("the token of %s is answered %d", starts[i].given, status);
        CHECK_INT(program_audit(port, "another"), 401);
        const char *said = proc_output(&service.proc);
        for (int k = 0; k < 2 && starts[i].says[k]; k++)
            CHECK_HAS(said, starts[i].says[k]);
        CHECK(!strstr(said, "hunter2") && !strstr(said, starts[i].token) && !strstr(said, "is no setting"));
        program_stop(&service);
    }
}

/* ---- the token that is made up ---- */

/* The line of the file that the output names; only its owner can read it. */
static char *kept_token(const char *output) {
    const char *said = strstr(output, ", is in ");
    CHECK(said != NULL);
    CHECK_INT(program_count(output, "admin token"), 1);
    said += strlen(", is in ");
    const char *path = harness_format("%.*s", (int)strcspn(said, "\r\n"), said);
    CHECK(strncmp(path, harness_dir(), strlen(harness_dir())) == 0);
    struct stat about;
    CHECK(stat(path, &about) == 0);
    CHECK_INT(about.st_mode & 0777, 0600);
    char *token = harness_alloc(200);
    FILE *file = fopen(path, "re");
    CHECK(file && fgets(token, 200, file) && fgetc(file) == EOF && fclose(file) == 0);
    token[strcspn(token, "\n")] = '\0';
    CHECK(strlen(token) >= 20);
    return token;
}

static void a_made_up_admin_token(void) {
    struct program service;
    char *tokens[3];
    int port = harness_free_port();
    const char *const places[] = {"SECKILL_ADMIN_TOKEN= RUNTIME_DIRECTORY=",
                                  "RUNTIME_DIRECTORY= XDG_RUNTIME_DIR=", "XDG_RUNTIME_DIR= TMPDIR="};
    unsetenv("RUNTIME_DIRECTORY");
    for (int i = 0; i < 3; i++) {
        const char *given = program_storeless(port, harness_format("%s%s", places[i], harness_dir()));
        program_start(&service, port, given);
        tokens[i] = kept_token(proc_output(&service.proc));
        CHECK_INT(program_count(proc_output(&service.proc), tokens[i]), 0);
        CHECK_INT(program_audit(port, tokens[i]), 503);
        CHECK_INT(program_audit(port, "test-token"), 401);
        CHECK_INT(program_audit(port, ""), 401);
        /* One that cannot serve there leaves the file alone. */
        struct proc second;
        int status;
        program_spawn(&second, given);
        CHECK(proc_wait(&second, PROGRAM_TIME_MS, &status));
        CHECK_INT(WEXITSTATUS(status), 1);
        CHECK_STR(kept_token(proc_output(&service.proc)), tokens[i]);
        program_stop(&service);
    }
    CHECK(strcmp(tokens[0], tokens[1]) != 0);
    /* A directory that others could change keeps no secret. */
    const char *open_to_all = harness_format("%s/open", harness_dir());
    CHECK(mkdir(open_to_all, 0700) == 0 && chmod(open_to_all, 0777) == 0);
    program_start(&service, port,
                  program_storeless(port, harness_format("RUNTIME_DIRECTORY=%s", open_to_all)));
    CHECK_HAS(proc_output(&service.proc), "cannot be kept");
    program_stop(&service);
}

static void on_a_terminal(void) {
    struct program script = {.port = harness_free_port()};
    const char *argv[] = {"script", "-qec",
                          harness_format("exec %s/seckilld --listen 127.0.0.1:%d --redis redis://127.0.0.1:1",
                                         harness_build(), script.port),
                          "/dev/null", NULL};
    const char *env[] = {harness_format("RUNTIME_DIRECTORY=%s", harness_dir()), NULL};
    proc_spawn(&script.proc, argv, env, harness_format("%s/terminal.log", harness_dir()));
    CHECK(harness_wait(program_is_live, &script, PROGRAM_TIME_MS));
    const char *shown = strstr(proc_output(&script.proc), "\nadmin token: ");
    CHECK(shown != NULL);
    shown += strlen("\nadmin token: ");
    CHECK_INT(program_audit(script.port, harness_format("%.*s", (int)strcspn(shown, "\r\n"), shown)), 503);
    proc_kill(&script.proc, SIGKILL); /* what runs in it is hung up on */
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the store's password is used and never told", the_stores_password);
    harness_run("a wrong password", a_wrong_password);
    harness_run("secrets in mistakes are not repeated", secrets_in_mistakes);
    harness_run("secrets in files", secret_files);
    harness_run("files of secrets that are refused", secret_files_that_are_refused);
    harness_run("an admin token that is made up is kept in a file", a_made_up_admin_token);
    harness_run("a terminal has it shown", on_a_terminal);
    return harness_finish();
}

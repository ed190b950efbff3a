/* seckilld with the settings that a test gives. */
#include "service/test/program.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "service/test/shop.h"

enum { MAX_ARGS = 16 };

const char *program_write_file(const char *text) {
    static int files;
    char *path = harness_format("%s/seckilld-%d.conf", harness_dir(), files++);
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
    return path;
}

void program_spawn(struct proc *proc, const char *given) {
    static int logs;
    const char *argv[MAX_ARGS] = {harness_format("%s/seckilld", harness_build())}, *env[MAX_ARGS] = {NULL};
    char *words = harness_format("%s", given), *rest = NULL;
    int argc = 1, variables = 0;
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        CHECK(argc < MAX_ARGS - 1 && variables < MAX_ARGS - 1);
        *(isupper((unsigned char)*word) ? &env[variables++] : &argv[argc++]) = word;
    }
    proc_spawn(proc, argv, env, harness_format("%s/seckilld-config-%d.log", harness_dir(), logs++));
}

const char *program_run(const char *given, int want) {
    struct proc proc;
    int status;
    program_spawn(&proc, given);
    if (!proc_wait(&proc, PROGRAM_TIME_MS, &status))
        FAIL("seckilld %s runs", given);
    const char *text = proc_output(&proc);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != want)
        FAIL("seckilld %s: wait status %#x, not exit status %d: %s", given, (unsigned)status, want, text);
    return text;
}

void program_check_refused(const char *given, const char *where, const char *right) {
    const char *text = program_run(given, 2);
    if (strncmp(text, "seckilld: ", 10) != 0 || strchr(text, '\n') != text + strlen(text) - 1)
        FAIL("seckilld %s says, not in one line: %s", given, text);
    CHECK_HAS(text, where);
    CHECK_HAS(text, right);
}

bool program_is_live(void *arg) {
    struct program *program = arg;
    return (shop_get(program->port, "/livez", NULL) == 200 &&
            strstr(proc_output(&program->proc), " on http://")) ||
           !proc_running(&program->proc);
}

void program_start(struct program *program, int port, const char *given) {
    program->port = port;
    program_spawn(&program->proc, given);
    if (!harness_wait(program_is_live, program, PROGRAM_TIME_MS) || !proc_running(&program->proc))
        FAIL("seckilld %s does not serve port %d", given, port);
}

const char *program_storeless(int port, const char *variables) {
    return harness_format("%s --listen 127.0.0.1:%d --redis redis://127.0.0.1:1", variables, port);
}

void program_check_end(struct proc *proc) {
    int status;
    CHECK(proc_wait(proc, PROGRAM_TIME_MS, &status));
    CHECK_INT(status, 0);
}

void program_stop(struct program *program) {
    proc_kill(&program->proc, SIGTERM);
    program_check_end(&program->proc);
}

int program_count(const char *text, const char *piece) {
    int n = 0;
    for (; (text = strstr(text, piece)); text += strlen(piece))
        n++;
    return n;
}

int program_audit(int port, const char *token) {
    return web_call(port, "GET", "/v1/items/x/audit", harness_format("Authorization: Bearer %s\r\n", token),
                    NULL, NULL);
}

/* Every command of README and docs, run as printed (test/docs.sh). */
#include <string.h>
#include <sys/wait.h>

#include "test/harness.h"

enum { PATIENCE_MS = 230000 };

/* The documents are read one after the other, as if by one person. */
static void run_commands(const char *documents) {
    struct proc proc;
    int status;
    const char *command = harness_format("exec test/docs.sh %s", documents);
    const char *argv[] = {"bash", "-c", command, NULL};
    const char *env[] = {harness_format("TMPDIR=%s", harness_dir()), NULL};
    proc_spawn(&proc, argv, env, harness_format("%s/said", harness_dir()));
    CHECK(proc_wait(&proc, PATIENCE_MS, &status));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        FAIL("%s", proc_output(&proc));
    CHECK_HAS(proc_output(&proc), " commands\n");
}

static void try_it(void) {
    run_commands("README.md docs/measure.md docs/lab.md docs/libetcd.md");
}

static void operate_it(void) {
    run_commands("docs/sell.md");
}

static void grow_it(void) {
    run_commands("docs/grow.md");
}

static void link_it(void) {
    run_commands("docs/liblock.md");
}

static void change_it(void) {
    run_commands("docs/develop.md");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("README, and what is tried beside make run", try_it);
    harness_run("an operator installs the service", operate_it);
    harness_run("servers to try, and several instances", grow_it);
    harness_run("a program is linked with liblock", link_it);
    harness_run("the build", change_it);
    return harness_finish();
}

/* Every command of README and docs, run as printed (test/docs.sh). */
#include <string.h>
#include <sys/wait.h>

#include "test/harness.h"

enum { PATIENCE_MS = 230000 };

/* The documents of one run are read one after the other, as if by one person. The runs mostly wait, so they
 * go on side by side. */
static struct reading {
    const char *documents;
    struct proc proc;
} readings[] = {{.documents = "README.md docs/measure.md docs/lab.md docs/libetcd.md"},
                {.documents = "docs/sell.md"},
                {.documents = "docs/shop.md"},
                {.documents = "docs/grow.md"},
                {.documents = "docs/liblock.md"},
                {.documents = "docs/develop.md"}};
enum { READINGS = sizeof readings / sizeof *readings };

static void begin(struct reading *reading, int i) {
    const char *argv[] = {"bash", "-c", harness_format("exec test/docs.sh %s", reading->documents), NULL};
    const char *env[] = {harness_format("TMPDIR=%s", harness_dir()), NULL};
    proc_spawn(&reading->proc, argv, env, harness_format("%s/said-%d", harness_dir(), i));
}

static struct reading *read_now;

static void check_read(void) {
    int status;
    const struct proc *proc = &read_now->proc;
    CHECK(proc_wait(&read_now->proc, PATIENCE_MS, &status));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        FAIL("%s", proc_output(proc));
    CHECK_HAS(proc_output(proc), " commands\n");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (int i = 0; i < READINGS && *harness_dir(); i++)
        begin(&readings[i], i);
    for (int i = 0; i < READINGS; i++) {
        read_now = &readings[i];
        harness_run(readings[i].documents, check_read);
    }
    return harness_finish();
}

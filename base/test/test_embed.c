/* The script that makes a file a C string. */
#include <stdio.h>
#include <string.h>

#include "test/harness.h"

/* What the command of the shell says. */
static char *run(const char *command) {
    static int count;
    struct proc proc;
    int status;
    const char *argv[] = {"sh", "-c", command, NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s/said-%d", harness_dir(), count++));
    CHECK(proc_wait(&proc, 30000, &status));
    CHECK_INT(status, 0);
    return proc_output(&proc);
}

static void write_file(const char *path, const char *bytes, size_t length) {
    FILE *file = fopen(path, "w");
    CHECK(file);
    CHECK_INT(fwrite(bytes, 1, length, file), length);
    CHECK_INT(fclose(file), 0);
}

/* Embeds the bytes, compiles that, and has the program say what it holds. */
static void check_embedded(const char *bytes, size_t length) {
    const char *file = harness_format("%s/embedded.txt", harness_dir());
    const char *program = harness_format("%s/embedded", harness_dir());
    write_file(file, bytes, length);
    const char *source = harness_format("%s\n#include <stdio.h>\nint main(void) {\n    puts(thing_sha1);\n"
                                        "    fwrite(thing, 1, sizeof thing - 1, stdout);\n    return 0;\n}\n",
                                        run(harness_format("base/embed.sh thing '%s'", file)));
    write_file(harness_format("%s.c", program), source, strlen(source));
    run(harness_format("cc -Wall -Werror -o '%s' '%s.c'", program, program));
    char *said = run(harness_format("'%s'", program));
    CHECK_INT(strlen(said), 41 + length);
    CHECK(memcmp(said + 41, bytes, length) == 0);
    said[40] = '\0';
    char *sum = run(harness_format("sha1sum '%s'", file));
    sum[40] = '\0';
    CHECK_STR(said, sum);
}

static void test_embed(void) {
    check_embedded("", 0);
    check_embedded("one line, no end", 16);
    static const char hard[] = "?"
                               "?=\"\\n%s\\\"'\n\n0123456789\n";
    check_embedded(hard, sizeof hard - 1);
    char all[255 * 4 + 1];
    size_t length = 0;
    for (int round = 0; round < 4; round++) {
        for (int c = 1; c < 256; c++)
            all[length++] = (char)(round % 2 ? 256 - c : c);
    }
    all[length++] = '7'; /* a digit after an escape */
    check_embedded(all, length);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a file as a C string, with its SHA-1", test_embed);
    return harness_finish();
}

/* Gives a fuzz target every file of its corpus once, with no need for libFuzzer: MODULE_fuzz_NAME reads
 * MODULE/test/corpus/NAME; etcd_fuzz_NAME reads that of lock/libetcd, and lab_fuzz_NAME that of loadtest/lab.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *corpus_dir(void) {
    const char *name = program_invocation_short_name;
    const char *fuzz = strstr(name, "_fuzz_");
    CHECK(fuzz);
    const char *outer = strncmp(name, "etcd_", 5) == 0  ? "lock/lib"
                        : strncmp(name, "lab_", 4) == 0 ? "loadtest/"
                                                        : "";
    return harness_format("%s%.*s/test/corpus/%s", outer, (int)(fuzz - name), name, fuzz + strlen("_fuzz_"));
}

static void replay_file(const char *path) {
    FILE *file = fopen(path, "re");
    if (!file)
        FAIL("%s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    /* Of exactly this size, so that a sanitizer sees a read past its end. */
    uint8_t *data = harness_alloc(size);
    size_t got = fread(data, 1, size, file);
    fclose(file);
    CHECK_INT(got, size);
    LLVMFuzzerTestOneInput(data, size);
}

static void replay_corpus(void) {
    const char *path = corpus_dir();
    int files = 0;
    DIR *dir = opendir(path);
    if (!dir)
        FAIL("%s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        replay_file(harness_format("%s/%s", path, entry->d_name));
        files++;
    }
    closedir(dir);
    CHECK(files > 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the fuzz corpus", replay_corpus);
    return harness_finish();
}

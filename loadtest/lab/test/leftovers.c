#include "loadtest/lab/test/leftovers.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "test/harness.h"

static bool is_number(const char *text) {
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Whether a process works in the directory, or has it in its command line. */
static bool belongs(const char *pid, const char *to) {
    char line[4096], directory[4096] = "";
    if (readlink(harness_format("/proc/%s/cwd", pid), directory, sizeof directory - 1) > 0 &&
        strstr(directory, to))
        return true;
    FILE *file = fopen(harness_format("/proc/%s/cmdline", pid), "r");
    size_t length = file != NULL ? fread(line, 1, sizeof line, file) : 0;
    if (file != NULL)
        fclose(file);
    return length > 0 && memmem(line, length, to, strlen(to)) != NULL;
}

static int count_processes(const char *directory) {
    DIR *processes = opendir("/proc");
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(processes)) != NULL;)
        count += is_number(entry->d_name) && belongs(entry->d_name, directory);
    closedir(processes);
    return count;
}

bool leftovers_none(void *directory) {
    DIR *files = opendir(directory);
    bool left = false;
    for (const struct dirent *entry; !left && (entry = readdir(files)) != NULL;)
        left = entry->d_name[0] != '.';
    closedir(files);
    return !left && count_processes(directory) == 0;
}

bool leftovers_play(void *directory) {
    return count_processes(directory) >= 3;
}

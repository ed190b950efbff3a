#include "lock/bench/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static void read_cpu(char *cpu, size_t size) {
    char line[512];
    snprintf(cpu, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && value) {
            value += 1 + strspn(value + 1, " ");
            snprintf(cpu, size, "%.*s", (int)strcspn(value, "\n"), value);
            break;
        }
    }
    fclose(file);
}

struct bench_machine bench_machine_read(void) {
    struct bench_machine machine = {.cores = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    struct utsname names;
    read_cpu(machine.cpu, sizeof machine.cpu);
    if (uname(&names) == 0)
        snprintf(machine.kernel, sizeof machine.kernel, "%s %s", names.sysname, names.release);
    return machine;
}

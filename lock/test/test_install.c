/* liblock as others get it: installed below a directory outside the tree, and linked there by a program that
 * knows of it what pkg-config says. The program is the example at the top of lock.h. */
#include <string.h>
#include <sys/wait.h>

#include "test/harness.h"

/* The libraries are of the same build as this program, and sanitized ones want a sanitized program. */
#if defined(__SANITIZE_ADDRESS__)
#define SAN      "asan"
#define SANITIZE " -fsanitize=address,undefined "
#elif defined(__SANITIZE_THREAD__)
#define SAN      "tsan"
#define SANITIZE " -fsanitize=thread "
#else
#define SAN      ""
#define SANITIZE " "
#endif
#define STRICT " -Wall -Wextra -Wpedantic -Werror "
#define HEADER "root/usr/include/lock/lock.h "

/* What the shell says, in that directory. */
static char *run_in(const char *directory, const char *command, int code) {
    static int count;
    struct proc proc;
    int status;
    const char *argv[] = {"sh", "-c", harness_format("cd '%s' && %s", directory, command), NULL};
    const char *env[] = {
        "MAKEFLAGS=", /* of make test, whose variables and jobs are not meant */
        harness_format("PKG_CONFIG_PATH=%s/root/usr/lib/pkgconfig", harness_dir()),
        harness_format("PKG_CONFIG_SYSROOT_DIR=%s/root", harness_dir()),
        NULL,
    };
    proc_spawn(&proc, argv, env, harness_format("%s/said-%d", harness_dir(), count++));
    CHECK(proc_wait(&proc, 60000, &status));
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), code);
    return proc_output(&proc);
}

/* Outside the tree, beside root/. */
static char *run(const char *command) {
    return run_in(harness_dir(), command, 0);
}

/* Into root/, once; what make says. */
static const char *install(void) {
    static char said[8192];
    if (!said[0]) {
        const char *command = harness_format(
            "umask 077 && make install SAN=" SAN " DESTDIR='%s/root' PREFIX=/usr", harness_dir());
        strncpy(said, run_in(".", command, 0), sizeof said - 1);
    }
    return said;
}

static void installed(void) {
    const char *said = install();
    CHECK_HAS(said, "install ");
    /* Who installs may be another than who built, and must not write into the tree. */
    CHECK(!strstr(said, "  CC ") && !strstr(said, "  AR ") && !strstr(said, "  LD "));
    char *version = run("pkg-config --modversion liblock");
    version[strcspn(version, "\n")] = '\0';
    CHECK_STR(run("root/usr/bin/seckilld --version"), harness_format("seckilld %s\n", version));
    CHECK_STR(run("cd root/usr && find include lib/liblock* lib/pkgconfig ! -type d -printf '%p %l\n' | "
                  "LC_ALL=C sort"),
              harness_format("include/lock/lock.h \n"
                             "lib/liblock.a \n"
                             "lib/liblock.so liblock.so.%s\n"
                             "lib/liblock.so.0 liblock.so.%s\n"
                             "lib/liblock.so.%s \n"
                             "lib/pkgconfig/liblock.pc \n",
                             version, version, version));
    /* Everybody may use it, whatever the umask. */
    CHECK_STR(run("find root ! -perm -o=r -o -type d ! -perm -o=x"), "");
    CHECK_STR(run("PKG_CONFIG_SYSROOT_DIR= pkg-config --variable=prefix liblock"), "/usr\n");
}

static void exports(void) {
    install();
    /* The compiler's list of prototypes, less those of other headers. */
    run("cc -fsyntax-only -aux-info prototypes -x c " HEADER);
    const char *declared = run("sed -n 's,.*lock/lock.h:[^*]*\\*/ [^(]*[ *]\\([a-z0-9_]*\\) (.*,\\1,p'"
                               " prototypes | sort");
    CHECK_HAS(declared, "lock_acquire_all\n");
    CHECK_STR(run("nm -D --defined-only root/usr/lib/liblock.so | cut -d ' ' -f 3 | sort"), declared);
}

static void header_alone(void) {
    install();
    run("cc -std=c99 -fsyntax-only" STRICT "-x c " HEADER);
    run("g++ -std=c++11 -fsyntax-only" STRICT "-x c++ " HEADER);
}

/* Compiles the example and runs it. */
static void check_example(const char *compile) {
    install();
    run("sed -n '/^ \\*     #include/,/^ \\*     }$/s/^ \\* \\{0,5\\}//p' " HEADER "> example.c");
    run(harness_format("%s" SANITIZE "-o example", compile));
    CHECK_STR(run("LD_LIBRARY_PATH=root/usr/lib ./example local:"), "basket:7 is ours, fence 0\nok\n");
    CHECK_HAS(run_in(harness_dir(), "LD_LIBRARY_PATH=root/usr/lib ./example", 2), "which lock?\n");
}

static void example_shared(void) {
    check_example("cc" STRICT "example.c $(pkg-config --cflags --libs liblock)");
    CHECK_HAS(run("readelf -d example"), "[liblock.so.0]");
}

/* The whole archive, so that nothing it wants is left out of liblock.pc. */
static void example_static(void) {
    check_example("cc" STRICT "example.c $(pkg-config --cflags liblock) -Wl,-Bstatic,--whole-archive"
                  " $(pkg-config --static --libs liblock) -Wl,--no-whole-archive,-Bdynamic");
    CHECK(!strstr(run("readelf -d example"), "[liblock"));
}

static void example_cpp(void) {
    check_example("g++" STRICT "-x c++ example.c $(pkg-config --cflags --libs liblock)");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("what make install installs", installed);
    harness_run("liblock.so exports what lock.h declares, and nothing else", exports);
    harness_run("lock.h compiles alone, as C and as C++", header_alone);
    harness_run("the example of lock.h, linked with liblock.so", example_shared);
    harness_run("the example of lock.h, linked with liblock.a", example_static);
    harness_run("the example of lock.h, as C++", example_cpp);
    return harness_finish();
}

/* The guard of the page server: its own host, its own page, and the token of changes. */
#include "loadtest/lab/serve/page_server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/url_parts.h"

enum { NAME_SIZE = 64 };

/* Accepts addresses and "localhost", since DNS can point any other name at this address. */
static bool is_own_host(const struct guard *guard, const char *text) {
    char name[NAME_SIZE];
    struct host host;
    struct in_addr v4;
    struct in6_addr v6;
    if (host_read(&host, text, strlen(text), 80) || host.port != guard->port || host.length >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)host.length, host.name);
    if (strcasecmp(name, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, name, &v4) == 1)
        return !guard->loopback || ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, name, &v6) == 1 && (!guard->loopback || IN6_IS_ADDR_LOOPBACK(&v6));
}

static bool is_same_origin(const struct guard_request *request) {
    static const char scheme[] = "http://";
    size_t length = sizeof scheme - 1;
    return request->origin && strncmp(request->origin, scheme, length) == 0 &&
           strcasecmp(request->origin + length, request->host) == 0;
}

static bool is_json(const char *type) {
    static const char json[] = "application/json";
    size_t length = sizeof json - 1;
    return type && strncasecmp(type, json, length) == 0 &&
           (type[length] == '\0' || type[length] == ';' || type[length] == ' ');
}

/* Compares in constant time. */
static bool is_token(const struct guard *guard, const char *token) {
    unsigned char differs = 0;
    if (!token || strlen(token) != strlen(guard->token))
        return false;
    for (size_t i = 0; token[i] != '\0'; i++)
        differs |= (unsigned char)(token[i] ^ guard->token[i]);
    return differs == 0;
}

/* Checks a request that changes something. */
static struct guard_refusal check_change(const struct guard *guard, const struct guard_request *request) {
    if (!is_same_origin(request))
        return (struct guard_refusal){
            403, "another page asks",
            "Only the lab's own page may do this: its Origin is missing or another one."};
    if (!is_json(request->content_type))
        return (struct guard_refusal){415, "not JSON", "Send the body as Content-Type: application/json."};
    if (!is_token(guard, request->token))
        return (struct guard_refusal){403, "no token",
                                      "Send the token of GET /api/lab as X-Lab-Token. If the lab was started "
                                      "anew, load the page again."};
    return (struct guard_refusal){.status = 0};
}

struct guard_refusal guard_check(const struct guard *guard, const struct guard_request *request) {
    bool reads = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    if (!request->host || !is_own_host(guard, request->host))
        return (struct guard_refusal){403, "another host",
                                      "Open the lab by the address that it printed when it started."};
    if (!reads && strcmp(request->method, "POST") != 0)
        return (struct guard_refusal){405, "no such method", "The lab knows GET, HEAD and POST."};
    /* Browsers send Sec-Fetch-Site. A link from another site may open the page, and nothing else. */
    if (request->fetch_site && strcmp(request->fetch_site, "same-origin") != 0 &&
        strcmp(request->fetch_site, "none") != 0 && !(reads && strcmp(request->path, "/") == 0))
        return (struct guard_refusal){403, "another site's page",
                                      "Only the lab's own page may ask for this."};
    if (reads)
        return (struct guard_refusal){.status = 0};
    return check_change(guard, request);
}

/* The answers to requests that are refused before they are read. The connection must end with them. */
#ifndef SERVICE_HTTP_REFUSALS_H
#define SERVICE_HTTP_REFUSALS_H

#include "service/http/head.h"

void http_refuse(struct MHD_Connection *mhd, const struct http_fault *fault, bool body_wanted);
/* The same while a body that is too large still comes. It must be read on: if bytes are unread when a socket
 * is closed, the close is a reset, which may overtake the answer. */
void http_refuse_body(struct MHD_Connection *mhd, bool body_wanted);
/* MHD_queue_response(), for the program's own answers. */
enum MHD_Result http_queue(struct MHD_Connection *mhd, unsigned int status, struct MHD_Response *response);

#endif

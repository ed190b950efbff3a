/* From a member to what it lies in: for calls that hand out the member alone. */
#ifndef SERVICE_CONTAINER_H
#define SERVICE_CONTAINER_H

#include <stddef.h>

#define CONTAINER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif

// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Link-layer addresses of frames.
#ifndef SLUICE_STATION_H
#define SLUICE_STATION_H

#include "layout.h"
#include "parse.h"

// Returns true if the frame's destination is the port's MAC address.
static __always_inline int is_for(struct ethhdr *ethernet, struct port *port)
{
    word32 *frame = (void *)ethernet->h_dest, *mac = (void *)port->mac;
    half16 *frame_end = (void *)(frame + 1), *mac_end = (void *)(mac + 1);
    return *frame == *mac && *frame_end == *mac_end;
}

// Writes the addresses of a frame to `member`.
static __always_inline void write_macs(struct ethhdr *ethernet, struct member *member)
{
    word32 *to = (void *)ethernet->h_dest, *from = (void *)member->destination;
    to[0] = from[0];
    to[1] = from[1];
    to[2] = from[2];
}

#endif

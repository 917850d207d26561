/* What the stand-in for a driver knows, what tests ask and set of it, and what every call of it
 * begins with. Part of fake_libcuda.c. */
#pragma once
#define _GNU_SOURCE
#include <cuda.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_PARAMS 64
#define PAGE ((size_t)2 << 20)
#define SHARED_PLAIN (48 << 10)
#define SHARED_OPT_IN (227 << 10)

typedef void (*native_kernel)(const uint8_t *, const int32_t *, const int32_t *, int64_t, int64_t,
                              uint8_t *);

struct image {
  char magic[8]; /* "FAKECUBI" */
  uint64_t entry;
  uint32_t params;       /* the kernel's own, without the two scratch pointers */
  uint32_t arena_bytes;  /* of the native kernel */
  uint32_t scratch_bytes; /* a program needs through the scratch pointer */
  uint32_t registers;
  uint8_t size[MAX_PARAMS];
  char name[64];
  int shared_most, any_cluster; /* what was set of the loaded function */
};

struct launch {
  struct image *kernel;
  uint64_t slot[MAX_PARAMS];
  uint64_t scratch[2];
  unsigned grid[3], block[3], shared, cluster;
  int attributes[4], attribute_count;
};

/* Everything that is alive: handles by their address, memory with its size. */
enum kind { NONE, CONTEXT, STREAM, EVENT, MODULE, GRAPH, EXEC, PLAIN, RESERVED, PAGES, MAPPED };
struct thing {
  enum kind kind;
  uint64_t at;
  size_t bytes;
  int open; /* mapped memory that may be touched */
};

struct node {
  int is_event;
  CUevent event;
  struct launch launch;
};

struct graph {
  int count, room;
  struct node *nodes;
};

struct event {
  struct timespec at;
  int recorded;
};

static struct {
  int started, devices, arch, no_guard, mode;
  CUresult lost;          /* the context's fault, for good */
  CUresult pending;       /* found by the next synchronising call */
  struct graph *capture;
  CUstream capturing;
  int spoilt;  /* a capture in which something happened that may not */
  int busy;    /* work that nobody has waited for */
  CUcontext current;
  struct thing alive[4096];
  int things;
  uint64_t pages_made;
  struct { uint64_t to; size_t bytes; void *data; } under_way; /* one copy from pageable memory */
  char fail_in[64];
  CUresult fail_with;
  int fail_after;
  char calls[1 << 21];
  size_t called;
  struct launch last;
  long launches;
} state = {.devices = 1, .arch = 90};

static sigjmp_buf out_of_kernel;

/* ------------------------------------------------------------------ what tests ask and set */

EXPORT void fake_reset(int devices, int arch, int no_guard, int mode) {
  memset(&state, 0, sizeof state);
  state.devices = devices;
  state.arch = arch;
  state.no_guard = no_guard;
  state.mode = mode;
}
EXPORT void fake_fail(const char *function, int code, int after) {
  snprintf(state.fail_in, sizeof state.fail_in, "%s", function);
  state.fail_with = code;
  state.fail_after = after;
}
EXPORT const char *fake_calls(void) { return state.calls; }
EXPORT void fake_forget_calls(void) { state.called = 0, state.calls[0] = 0; }
EXPORT const struct launch *fake_last(void) { return &state.last; }
static struct thing *find(enum kind kind, uint64_t at) {
  for (int i = 0; i < state.things; i++)
    if (state.alive[i].kind == kind && state.alive[i].at == at) return &state.alive[i];
  return NULL;
}
static void live(enum kind kind, uint64_t at, size_t bytes) {
  if (state.things == sizeof state.alive / sizeof *state.alive) abort();
  state.alive[state.things++] = (struct thing){.kind = kind, .at = at, .bytes = bytes};
}
static int die(enum kind kind, uint64_t at) {
  struct thing *found = find(kind, at);
  if (found) *found = state.alive[--state.things];
  return found != NULL;
}
/* The thing of a kind that a range lies in, or that lies in the range. */
static struct thing *around(enum kind kind, uint64_t at, size_t bytes, int within) {
  for (int i = 0; i < state.things; i++) {
    struct thing *one = &state.alive[i];
    uint64_t end = at + bytes, its_end = one->at + one->bytes;
    if (one->kind != kind) continue;
    if (within ? one->at <= at && end <= its_end : one->at < end && at < its_end) return one;
  }
  return NULL;
}
static int touchable(uint64_t at, size_t bytes) {
  struct thing *mapped = around(MAPPED, at, bytes, 1);
  return around(PLAIN, at, bytes, 1) || (mapped && mapped->open);
}
static long count(enum kind kind) {
  long found = 0;
  for (int i = 0; i < state.things; i++) found += state.alive[i].kind == kind;
  return found;
}
EXPORT long fake_count(const char *what) {
  if (!strcmp(what, "allocations")) return count(PLAIN) + count(RESERVED) + count(PAGES);
  if (!strcmp(what, "launches")) return state.launches;
  if (!strcmp(what, "modules")) return count(MODULE);
  if (!strcmp(what, "events")) return count(EVENT);
  if (!strcmp(what, "graphs")) return count(GRAPH) + count(EXEC);
  if (!strcmp(what, "streams")) return count(STREAM);
  if (!strcmp(what, "contexts")) return count(CONTEXT);
  return -1;
}

static CUresult enter(const char *function, int needs_context) {
  size_t length = strlen(function);
  if (state.called + length + 2 < sizeof state.calls) {
    memcpy(state.calls + state.called, function, length);
    memcpy(state.calls + state.called + length, "\n", 2);
    state.called += length + 1;
  }
  if (state.fail_in[0] && !strcmp(state.fail_in, function) && state.fail_after-- == 0) {
    state.fail_in[0] = 0;
    return state.fail_with;
  }
  if (needs_context && !state.started) return CUDA_ERROR_NOT_INITIALIZED;
  if (needs_context > 1 && !state.current) return CUDA_ERROR_INVALID_CONTEXT;
  if (needs_context && state.lost) return state.lost;
  return CUDA_SUCCESS;
}
#define ENTER(context)                              \
  do {                                              \
    CUresult entered = enter(__func__, context);    \
    if (entered != CUDA_SUCCESS) return entered;    \
  } while (0)
#define NEED(condition, code) \
  do {                        \
    if (!(condition)) return code; \
  } while (0)
#define NEED_ALIVE(kind, handle) NEED(find(kind, (uint64_t)(handle)), CUDA_ERROR_INVALID_HANDLE)
#define NEED_DEVICE(device) \
  NEED((device) >= 0 && (device) < state.devices, CUDA_ERROR_INVALID_DEVICE)
/* What waits, allocates or uses the default stream may not stand in a capture, and spoils it. */
#define NOT_IN_A_CAPTURE()                              \
  do {                                                  \
    if (state.capture) {                                \
      state.spoilt = 1;                                 \
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;     \
    }                                                   \
  } while (0)

/* The bytes of a copy from pageable memory may arrive long after the call has returned, and a
 * stream of its own does not wait for them: here they arrive with the next call that waits. */
static void arrive(void) {
  if (!state.under_way.data) return;
  memcpy((void *)(uintptr_t)state.under_way.to, state.under_way.data, state.under_way.bytes);
  free(state.under_way.data);
  state.under_way.data = NULL;
}

static CUresult settle(void) {
  if (state.pending) state.lost = state.pending;
  state.pending = CUDA_SUCCESS;
  return state.lost;
}

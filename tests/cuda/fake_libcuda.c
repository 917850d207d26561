/* A CUDA driver that is not there: the functions that kernelsmith calls, on host memory.
 *
 * Compiled against the public header cuda.h, so that a signature that differs from the driver's
 * does not compile. A "cubin" is a struct image below: the address of a native kernel of the CPU
 * device. Work in a stream runs at once; captured work is kept and run when its graph is launched.
 * A native kernel that faults in memory loses the context, as on a GPU.
 *
 * It refuses what the driver's documentation forbids, where a driver may refuse, crash or do
 * nothing: handles that are not (or no longer) alive, ranges that are not one allocation's, work
 * that may not be captured, launches beyond a block's limits. And it is stricter than a driver in
 * one point: a copy to or from the host, or taking memory away, while work is under way that nobody
 * has waited for is an error (NOT_READY) instead of a race. */
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

/* --------------------------------------------------------------------------- device, context */

EXPORT CUresult CUDAAPI cuInit(unsigned int flags) {
  ENTER(0);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (!state.devices) return CUDA_ERROR_NO_DEVICE;
  state.started = 1;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDriverGetVersion(int *version) { ENTER(0); *version = 12080; return 0; }
EXPORT CUresult CUDAAPI cuGetErrorName(CUresult code, const char **text) {
  *text = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == 100 ? "CUDA_ERROR_NO_DEVICE" : NULL;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult CUDAAPI cuGetErrorString(CUresult code, const char **text) {
  *text = code == 700 ? "an illegal memory access was encountered" : "told by a stand-in";
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetCount(int *count) { ENTER(1); *count = state.devices; return 0; }
EXPORT CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER(1);
  NEED_DEVICE(ordinal);
  *device = ordinal;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetName(char *name, int length, CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  snprintf(name, length, "Stand-in %d", device);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  for (int i = 0; i < 16; i++) uuid->bytes[i] = (char)(i + device);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  *bytes = (size_t)1 << 30;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = state.mode; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = state.arch / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = state.arch % 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = SHARED_OPT_IN; break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: *value = !state.no_guard; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  live(CONTEXT, (uint64_t)&state, 0);
  *context = (CUcontext)&state;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER(1);
  NEED_DEVICE(device);
  return die(CONTEXT, (uint64_t)&state) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
EXPORT CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  ENTER(1);
  NEED(!context || find(CONTEXT, (uint64_t)context), CUDA_ERROR_INVALID_CONTEXT);
  state.current = context;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  ENTER(2);
  (void)value;
  return limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}
EXPORT CUresult CUDAAPI cuCtxResetPersistingL2Cache(void) { ENTER(2); return CUDA_SUCCESS; }

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
EXPORT CUresult CUDAAPI cuCtxSynchronize(void) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  arrive();
  state.busy = 0;
  return settle();
}

/* ---------------------------------------------------------------------------------- memory */

EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  void *found = NULL;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > (size_t)1 << 30 || posix_memalign(&found, 256, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(found, 0xA5, bytes);
  live(PLAIN, (uint64_t)found, bytes);
  *address = (CUdeviceptr)(uintptr_t)found;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr address) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  arrive();
  NEED(die(PLAIN, address), CUDA_ERROR_INVALID_VALUE);
  free((void *)(uintptr_t)address);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  NEED(touchable(to, bytes), CUDA_ERROR_INVALID_VALUE);
  arrive();
  state.under_way.to = to;
  state.under_way.bytes = bytes;
  state.under_way.data = malloc(bytes);
  memcpy(state.under_way.data, from, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  NEED(touchable(from, bytes), CUDA_ERROR_INVALID_VALUE);
  arrive();
  if (settle()) return state.lost;
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                             CUstream stream) {
  ENTER(2);
  NEED_ALIVE(STREAM, stream);
  NEED(touchable(to, bytes) && touchable(from, bytes), CUDA_ERROR_INVALID_VALUE);
  state.busy = 1;
  memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
                                        CUstream stream) {
  ENTER(2);
  NEED_ALIVE(STREAM, stream);
  NEED(touchable(to, bytes), CUDA_ERROR_INVALID_VALUE);
  state.busy = 1;
  memset((void *)(uintptr_t)to, value, bytes);
  return CUDA_SUCCESS;
}
static int pages_of_a_device(const CUmemAllocationProp *prop) {
  return prop->type == CU_MEM_ALLOCATION_TYPE_PINNED && !prop->requestedHandleTypes &&
         !prop->win32HandleMetaData && !prop->allocFlags.compressionType &&
         !prop->allocFlags.usage && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         prop->location.id >= 0 && prop->location.id < state.devices;
}
EXPORT CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                                      CUmemAllocationGranularity_flags option) {
  ENTER(2);
  NEED(pages_of_a_device(prop), CUDA_ERROR_INVALID_VALUE);
  NEED(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM, CUDA_ERROR_INVALID_VALUE);
  *bytes = PAGE;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
                                            CUdeviceptr wish, unsigned long long flags) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  NEED(bytes && bytes % PAGE == 0 && !alignment && !wish && !flags, CUDA_ERROR_INVALID_VALUE);
  void *found = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  NEED(found != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  live(RESERVED, (uint64_t)found, bytes);
  *address = (CUdeviceptr)(uintptr_t)found;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  ENTER(2);
  struct thing *found = find(RESERVED, address);
  NEED(found && found->bytes == bytes && !around(MAPPED, address, bytes, 0),
       CUDA_ERROR_INVALID_VALUE);
  die(RESERVED, address);
  munmap((void *)(uintptr_t)address, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                                    const CUmemAllocationProp *prop, unsigned long long flags) {
  ENTER(2);
  NOT_IN_A_CAPTURE();
  NEED(bytes && bytes % PAGE == 0 && !flags && pages_of_a_device(prop), CUDA_ERROR_INVALID_VALUE);
  *handle = ++state.pages_made;
  live(PAGES, *handle, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER(2);
  return die(PAGES, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                                 CUmemGenericAllocationHandle handle, unsigned long long flags) {
  ENTER(2);
  struct thing *pages = find(PAGES, handle);
  NEED(pages && pages->bytes == bytes && !offset && !flags, CUDA_ERROR_INVALID_VALUE);
  NEED(around(RESERVED, address, bytes, 1) && !around(MAPPED, address, bytes, 0),
       CUDA_ERROR_INVALID_VALUE);
  live(MAPPED, address, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes) {
  ENTER(2);
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  arrive();
  struct thing *found = find(MAPPED, address);
  NEED(found && found->bytes == bytes, CUDA_ERROR_INVALID_VALUE);
  die(MAPPED, address);
  return mprotect((void *)(uintptr_t)address, bytes, PROT_NONE) ? CUDA_ERROR_INVALID_VALUE : 0;
}
EXPORT CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes,
                                       const CUmemAccessDesc *desc, size_t count_of) {
  ENTER(2);
  struct thing *found = find(MAPPED, address);
  NEED(found && found->bytes == bytes && count_of == 1, CUDA_ERROR_INVALID_VALUE);
  NEED(desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
           desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE && desc->location.id >= 0 &&
           desc->location.id < state.devices,
       CUDA_ERROR_INVALID_VALUE);
  found->open = 1;
  void *place = (void *)(uintptr_t)address;
  return mprotect(place, bytes, PROT_READ | PROT_WRITE) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* --------------------------------------------------------------------------------- kernels */

EXPORT CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *data) {
  ENTER(2);
  struct image *copy = calloc(1, sizeof *copy);
  /* A real cubin is taken for a kernel that does nothing: enough to walk the code around it. */
  if (!memcmp(data, "FAKECUBI", 8))
    memcpy(copy, data, offsetof(struct image, shared_most));
  else if (memcmp(data, "\177ELF", 4)) {
    free(copy);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  copy->shared_most = SHARED_PLAIN, copy->any_cluster = 0;
  live(MODULE, (uint64_t)copy, 0);
  *module = (CUmodule)copy;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  ENTER(2);
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  NEED(die(MODULE, (uint64_t)module), CUDA_ERROR_INVALID_HANDLE);
  free(module);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  ENTER(2);
  NEED_ALIVE(MODULE, module);
  const struct image *image = (struct image *)module;
  if (image->entry && strcmp(image->name, name)) return CUDA_ERROR_NOT_FOUND;
  *function = (CUfunction)module;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction f) {
  ENTER(2);
  NEED_ALIVE(MODULE, f);
  switch (which) {
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)((struct image *)f)->registers; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value) {
  ENTER(2);
  NEED_ALIVE(MODULE, f);
  struct image *image = (struct image *)f;
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value <= SHARED_OPT_IN)
    image->shared_most = value;
  else if (which == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
    image->any_cluster = value;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config) {
  ENTER(2);
  NEED_ALIVE(MODULE, f);
  return config == CU_FUNC_CACHE_PREFER_SHARED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f,
                                                                    int threads, size_t shared) {
  ENTER(2);
  NEED_ALIVE(MODULE, f);
  (void)shared;
  *blocks = 2048 / threads;
  return CUDA_SUCCESS;
}

static void leave_kernel(int number) { siglongjmp(out_of_kernel, number); }

static CUresult run_kernel(const struct launch *one) {
  if (!one->kernel->entry) return CUDA_SUCCESS;
  struct sigaction ours = {.sa_handler = leave_kernel}, segv, bus;
  int64_t programs = (int64_t)(one->grid[0] / one->cluster) * one->grid[1] * one->grid[2];
  int32_t grid[3] = {(int32_t)(one->grid[0] / one->cluster), (int32_t)one->grid[1],
                     (int32_t)one->grid[2]};
  size_t wanted = (size_t)one->kernel->scratch_bytes * (size_t)programs;
  if (wanted && !one->scratch[0]) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (wanted) memset((void *)(uintptr_t)one->scratch[0], 0x5C, wanted);
  void *arena = NULL;
  if (posix_memalign(&arena, 64, one->kernel->arena_bytes + 64)) return CUDA_ERROR_OUT_OF_MEMORY;
  sigaction(SIGSEGV, &ours, &segv);
  sigaction(SIGBUS, &ours, &bus);
  int fault = sigsetjmp(out_of_kernel, 1);
  if (!fault)
    ((native_kernel)(uintptr_t)one->kernel->entry)((const uint8_t *)one->slot, grid, NULL, 0,
                                                   programs, arena);
  sigaction(SIGSEGV, &segv, NULL);
  sigaction(SIGBUS, &bus, NULL);
  free(arena);
  return fault ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static void perform(const struct launch *one) {
  state.last = *one;
  state.launches++;
  state.busy = 1;
  /* On a GPU a fault shows at the next call that waits, not at the launch. */
  if (!state.pending) state.pending = run_kernel(one);
}

static struct node *captured(void) {
  struct graph *graph = state.capture;
  if (graph->count == graph->room) {
    graph->room = graph->room ? 2 * graph->room : 16;
    graph->nodes = realloc(graph->nodes, graph->room * sizeof *graph->nodes);
  }
  struct node *node = &graph->nodes[graph->count++];
  memset(node, 0, sizeof *node);
  return node;
}

EXPORT CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params,
                                         void **extra) {
  ENTER(2);
  struct launch one = {.kernel = (struct image *)f, .cluster = 1};
  NEED_ALIVE(MODULE, f);
  NEED_ALIVE(STREAM, config->hStream);
  NEED(!extra, CUDA_ERROR_INVALID_VALUE);
  one.grid[0] = config->gridDimX, one.grid[1] = config->gridDimY, one.grid[2] = config->gridDimZ;
  one.block[0] = config->blockDimX, one.block[1] = config->blockDimY;
  one.block[2] = config->blockDimZ, one.shared = config->sharedMemBytes;
  NEED(one.grid[0] && one.grid[0] < 1u << 31, CUDA_ERROR_INVALID_VALUE);
  NEED(one.grid[1] && one.grid[1] < 1 << 16, CUDA_ERROR_INVALID_VALUE);
  NEED(one.grid[2] && one.grid[2] < 1 << 16, CUDA_ERROR_INVALID_VALUE);
  NEED(one.block[0] && one.block[0] <= 1024, CUDA_ERROR_INVALID_VALUE);
  NEED(one.block[1] == 1 && one.block[2] == 1, CUDA_ERROR_INVALID_VALUE);
  NEED((int)one.shared <= one.kernel->shared_most, CUDA_ERROR_INVALID_VALUE);
  NEED(one.block[0] * one.kernel->registers <= 65536, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  for (unsigned i = 0; i < config->numAttrs; i++) {
    one.attributes[one.attribute_count++] = (int)config->attrs[i].id;
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      one.cluster = config->attrs[i].value.clusterDim.x;
      if (config->attrs[i].value.clusterDim.y != 1 || config->attrs[i].value.clusterDim.z != 1)
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE &&
        config->attrs[i].value.clusterSchedulingPolicyPreference !=
            CU_CLUSTER_SCHEDULING_POLICY_SPREAD)
      return CUDA_ERROR_INVALID_VALUE;
  }
  NEED(one.cluster && one.grid[0] % one.cluster == 0, CUDA_ERROR_INVALID_VALUE);
  NEED(one.cluster <= (one.kernel->any_cluster ? 16 : 8), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  for (uint32_t i = 0; i < one.kernel->params; i++) {
    int64_t value = 0;
    memcpy(&value, params[i], one.kernel->size[i] & 0x7F);
    /* The native kernel wants integers sign-extended to their slot. */
    int unused = 64 - 8 * (one.kernel->size[i] & 0x7F);
    if (one.kernel->size[i] & 0x80) value = (int64_t)((uint64_t)value << unused) >> unused;
    one.slot[i] = (uint64_t)value;
  }
  for (int i = 0; one.kernel->entry && i < 2; i++) memcpy(&one.scratch[i], params[one.kernel->params + i], 8);
  if (state.capture && config->hStream == state.capturing)
    captured()->launch = one;
  else
    perform(&one);
  return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ streams, events, graphs */

EXPORT CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags) {
  ENTER(2);
  NEED(flags == CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
  *stream = (CUstream)malloc(1);
  live(STREAM, (uint64_t)*stream, 0);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuStreamDestroy_v2(CUstream stream) {
  ENTER(2);
  NEED(die(STREAM, (uint64_t)stream), CUDA_ERROR_INVALID_HANDLE);
  free(stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  ENTER(2);
  NEED_ALIVE(STREAM, stream);
  NOT_IN_A_CAPTURE();
  state.busy = 0;
  return settle();
}
EXPORT CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  ENTER(2);
  NEED_ALIVE(STREAM, stream);
  NEED(!state.capture && mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUDA_ERROR_INVALID_VALUE);
  state.capturing = stream;
  state.spoilt = 0;
  state.capture = calloc(1, sizeof *state.capture);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  struct graph *found = state.capture;
  state.capture = NULL;
  ENTER(2);
  NEED(found && stream == state.capturing, CUDA_ERROR_ILLEGAL_STATE);
  *graph = NULL;
  NEED(!state.spoilt, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  live(GRAPH, (uint64_t)found, 0);
  *graph = (CUgraph)found;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph,
                                                    unsigned long long flags) {
  ENTER(2);
  NEED_ALIVE(GRAPH, graph);
  NEED(!flags, CUDA_ERROR_INVALID_VALUE);
  struct graph *from = (struct graph *)graph, *copy = calloc(1, sizeof *copy);
  copy->count = copy->room = from->count;
  copy->nodes = malloc(from->count * sizeof *copy->nodes);
  memcpy(copy->nodes, from->nodes, from->count * sizeof *copy->nodes);
  live(EXEC, (uint64_t)copy, 0);
  *made = (CUgraphExec)copy;
  return CUDA_SUCCESS;
}
static CUresult free_graph(enum kind kind, void *graph) {
  NEED(die(kind, (uint64_t)graph), CUDA_ERROR_INVALID_HANDLE);
  free(((struct graph *)graph)->nodes);
  free(graph);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  ENTER(2);
  return free_graph(GRAPH, graph);
}
EXPORT CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec graph) {
  ENTER(2);
  return free_graph(EXEC, graph);
}
static void record(CUevent event) {
  clock_gettime(CLOCK_MONOTONIC, &((struct event *)event)->at);
  ((struct event *)event)->recorded = 1;
}
EXPORT CUresult CUDAAPI cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  ENTER(2);
  NEED_ALIVE(EXEC, graph);
  NEED_ALIVE(STREAM, stream);
  struct graph *nodes = (struct graph *)graph;
  for (int i = 0; i < nodes->count; i++) {
    if (nodes->nodes[i].is_event)
      NEED_ALIVE(EVENT, nodes->nodes[i].event);
    else
      NEED_ALIVE(MODULE, nodes->nodes[i].launch.kernel);
    if (nodes->nodes[i].is_event)
      record(nodes->nodes[i].event);
    else
      perform(&nodes->nodes[i].launch);
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags) {
  ENTER(2);
  NEED(flags == CU_EVENT_DEFAULT, CUDA_ERROR_INVALID_VALUE);
  *event = (CUevent)calloc(1, sizeof(struct event));
  live(EVENT, (uint64_t)*event, 0);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuEventDestroy_v2(CUevent event) {
  ENTER(2);
  NEED(die(EVENT, (uint64_t)event), CUDA_ERROR_INVALID_HANDLE);
  free(event);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  ENTER(2);
  NEED_ALIVE(EVENT, event);
  NEED_ALIVE(STREAM, stream);
  if (state.capture && stream == state.capturing) {
    NEED(flags == CU_EVENT_RECORD_EXTERNAL, CUDA_ERROR_INVALID_VALUE);
    struct node *node = captured();
    node->is_event = 1;
    node->event = event;
    return CUDA_SUCCESS;
  }
  NEED(flags == CU_EVENT_RECORD_DEFAULT, CUDA_ERROR_INVALID_VALUE);
  record(event);
  return CUDA_SUCCESS;
}
#undef cuEventElapsedTime
EXPORT CUresult CUDAAPI cuEventElapsedTime(float *elapsed_ms, CUevent begin, CUevent end) {
  ENTER(2);
  NEED_ALIVE(EVENT, begin);
  NEED_ALIVE(EVENT, end);
  NEED(((struct event *)begin)->recorded && ((struct event *)end)->recorded,
       CUDA_ERROR_INVALID_HANDLE);
  NEED(!state.busy, CUDA_ERROR_NOT_READY);
  const struct timespec *a = &((struct event *)begin)->at, *b = &((struct event *)end)->at;
  *elapsed_ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) / 1e6);
  return CUDA_SUCCESS;
}
